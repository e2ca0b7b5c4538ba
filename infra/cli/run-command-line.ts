// Runs a command line to its exit code: one line for an error, no stack, quiet when nobody reads.

import { type Command, CommanderError } from 'commander';
import { errorMessage, HeadgateError } from '../../shared/error.ts';

/** 0 ok, 1 failed, 2 wrong usage. */
export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** Runs one command line and sets the exit code. Errors are one line on standard error; a stack only with `HEADGATE_LOG=debug`. */
export async function runCommandLine(program: Command, argv: readonly string[]): Promise<void> {
  endQuietlyWhenNobodyReads();
  settle(program);
  try {
    await program.parseAsync([...argv]);
  } catch (thrown) {
    process.exitCode = report(thrown);
  }
}

/** Subcommands made before do not inherit these settings. */
function settle(command: Command): void {
  command
    .showHelpAfterError('(add --help for the flags and examples)')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'headgate: ')) });
  for (const inner of command.commands) settle(inner);
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
