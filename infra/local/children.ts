// The processes that a local run starts: each a command of our own, ended with us even when we are killed.

import { type ChildProcess, spawn } from 'node:child_process';
import { access, constants } from 'node:fs/promises';

export interface Child {
  readonly name: string;
  /** Resolves with the exit status when it ends, for whatever reason. */
  readonly ended: Promise<number>;
  /** The last line that it printed on standard error. */
  lastWords(): string;
  stop(): Promise<void>;
}

const STOP_MS = 10_000;
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
  child.stderr.on('data', (chunk: Buffer) => {
    process.stderr.write(chunk);
    words = (words + chunk.toString('utf8')).slice(-4096);
  });
  const ended = new Promise<number>((resolve) => {
    child.once('error', () => resolve(1));
    child.once('close', (code) => resolve(code ?? 1));
  });
  return { name, ended, lastWords: () => words.trim().split('\n').at(-1) ?? '', stop: () => stop(child, ended) };
}

async function stop(child: ChildProcess, ended: Promise<number>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await ended;
  clearTimeout(late);
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
