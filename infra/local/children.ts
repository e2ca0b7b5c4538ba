// The processes that a local run starts: each a command of our own, ended with us even when we are killed.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, constants } from 'node:fs/promises';
import { createInterface } from 'node:readline';

export interface Child {
  readonly name: string;
  /** Aborted when it has ended, for whatever reason: what waits for it to do something waits no longer. */
  readonly over: AbortSignal;
  /** The error that it ended with, which is not printed; empty when it said none. */
  lastWords(): string;
  stop(): Promise<void>;
}

const STOP_MS = 10_000;
/** How a command of ours begins the line that says why it failed. */
const ERROR = 'headgate: ';
const SETPRIV = '/usr/bin/setpriv';

/** Starts `headgate COMMAND ...` of this same installation, inside a network namespace when one is named. */
export async function startCommand(name: string, argv: readonly string[], namespace: string | null): Promise<Child> {
  const prefix = [
    ...((await isExecutable(SETPRIV)) ? [SETPRIV, '--pdeathsig', 'TERM', '--'] : []),
    ...(namespace === null ? [] : ['ip', 'netns', 'exec', namespace]),
  ];
  const [program = process.execPath, ...args] = [...prefix, process.execPath, process.argv[1] ?? '', ...argv];
  const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'pipe'] });
  let words = '';
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (line.startsWith(ERROR)) words = line.slice(ERROR.length);
    else process.stderr.write(`${line}\n`);
  });
  const ended = new AbortController();
  child.once('error', () => ended.abort());
  child.once('close', () => ended.abort());
  return { name, over: ended.signal, lastWords: () => words, stop: () => stop(child, ended.signal) };
}

async function stop(child: ChildProcess, over: AbortSignal): Promise<void> {
  if (over.aborted) return;
  child.kill('SIGTERM');
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await once(over, 'abort');
  clearTimeout(late);
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
