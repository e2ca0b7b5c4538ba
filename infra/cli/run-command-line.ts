// Runs a command line to its exit code: one line for an error, no stack, quiet when nobody reads.

import { type Command, CommanderError } from 'commander';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import { printable } from './print.ts';

/** 0 ok, 1 failed, 2 wrong usage. */
export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** Runs one command line and sets the exit code. Errors are one line on standard error; a stack only with `HEADGATE_LOG=debug`. */
export async function runCommandLine(program: Command, argv: readonly string[]): Promise<void> {
  goOnWhenNobodyReads();
  forgetEmptyVariables();
  settle(program, program.name());
  try {
    await program.parseAsync([...argv]);
  } catch (thrown) {
    process.exitCode = report(thrown);
  }
}

/** Subcommands made before do not inherit these settings. */
function settle(command: Command, name: string): void {
  command.exitOverride().configureOutput({
    outputError: (text, write) => write(`${usageLine(text)}; see \`${name} --help\`\n`),
  });
  for (const inner of command.commands) settle(inner, `${name} ${inner.name()}`);
}

function usageLine(text: string): string {
  return `headgate: ${printable(
    text
      .replace(/^error: (command-argument )?/, '')
      .trim()
      .replace(/\s*\n\s*/g, ' '),
  ).replace(/\.$/, '')}`;
}

function report(thrown: unknown): number {
  if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? EXIT.ok : EXIT.usage;
  const stopped = thrown instanceof Error && thrown.name === 'AbortError';
  process.stderr.write(`headgate: ${stopped ? 'stopped before it was done' : printable(errorMessage(thrown))}\n`);
  const level = process.env['HEADGATE_LOG'];
  if ((level === 'debug' || level === 'trace') && thrown instanceof Error) process.stderr.write(`${String(thrown.stack)}\n`);
  return thrown instanceof HeadgateError && thrown.stage === 'usage' ? EXIT.usage : EXIT.failed;
}

/** `headgate versions | head` closes our output early: that is no error, and no reason for `up` to leave before it has cleaned up. */
function goOnWhenNobodyReads(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
    });
  }
}

/** `HEADGATE_OPTIONS=` is as good as unset; Commander would take it for a value. */
function forgetEmptyVariables(): void {
  for (const [name, value] of Object.entries(process.env)) {
    if (name.startsWith('HEADGATE_') && value === '') Reflect.deleteProperty(process.env, name);
  }
}
