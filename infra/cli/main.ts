// The command line: `headgate COMMAND`. Each command is a file in commands/ and loads only when it runs.

import { Command, CommanderError } from 'commander';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import { addCommands } from './commands.ts';

/** 0 ok, 1 failed, 2 wrong usage. */
export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** Runs one command line and sets the exit code. Errors are one line on standard error; a stack only with `HEADGATE_LOG=debug`. */
export async function main(argv: readonly string[]): Promise<void> {
  endQuietlyWhenNobodyReads();
  const program = addCommands(
    new Command('headgate')
      .description('Kubernetes edge router and service proxy without a control plane that stays running')
      .version('0.1.0')
      .showHelpAfterError('(add --help for the flags and examples)')
      .exitOverride()
      .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'headgate: ')) }),
  );
  try {
    await program.parseAsync([...argv]);
  } catch (thrown) {
    process.exitCode = report(thrown);
  }
}

function report(thrown: unknown): number {
  if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? EXIT.ok : EXIT.usage;
  process.stderr.write(`headgate: ${errorMessage(thrown)}\n`);
  const level = process.env['HEADGATE_LOG'];
  if ((level === 'debug' || level === 'trace') && thrown instanceof Error) process.stderr.write(`${String(thrown.stack)}\n`);
  return thrown instanceof HeadgateError && thrown.stage === 'usage' ? EXIT.usage : EXIT.failed;
}

/** `headgate versions | head` closes our output early: that is no error. */
function endQuietlyWhenNobodyReads(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(EXIT.ok);
    throw error;
  });
}
