// Processes of the bench: a network of their own, their start and end, and what the kernel says they used.

import { type ChildProcess, spawn } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { runProgram } from '../../sidecar/run-program.ts';

/** Bytes and seconds. */
export interface Usage {
  readonly memory: number;
  readonly peak: number;
  /** CPU time of the process. */
  readonly cpu: number;
  /** CPU time of the programs that it ran to their end. */
  readonly children: number;
}

/** Starts a program and remembers it in `started`. */
export function start(
  started: ChildProcess[],
  [program = '', ...args]: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): ChildProcess {
  const child = spawn(program, args, { stdio: 'ignore', env: { ...process.env, HEADGATE_LOG: 'silent', ...environment } });
  started.push(child);
  return child;
}

export async function end(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('close', resolve));
  child.kill(signal);
  await ended;
}

/** Makes a network with a loopback of its own, which lasts as long as a process; resolves to what runs a program inside. */
export async function startNetwork(started: ChildProcess[]): Promise<readonly string[]> {
  const network = start(started, ['unshare', '--net', 'sleep', 'infinity']);
  const ownNetwork = await readlink('/proc/self/ns/net');
  await until('the network is made', async () => (await readlink(`/proc/${network.pid}/ns/net`)) !== ownNetwork);
  const inside = ['nsenter', `--net=/proc/${network.pid}/ns/net`, '--'];
  await runProgram([...inside, 'ip', 'link', 'set', 'lo', 'up']);
  return inside;
}

/** Whether `/readyz` at an address of the network answers that it is ready. */
export async function answers(inside: readonly string[], at: string): Promise<boolean> {
  return (await runProgram([...inside, 'curl', '--silent', '--fail', '--max-time', '2', `http://${at}/readyz`])).code === 0;
}

const READY_MS = 180_000;

export async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  for (const last = Date.now() + READY_MS; !(await condition()); await sleep(100)) {
    if (Date.now() > last) throw new Error(`not after ${READY_MS} ms: ${what}`);
  }
}

/** Linux counts CPU time in hundredths of a second for every program. */
const TICKS = 100;

/** What the kernel says of a process: `unshare` and `nsenter` become the program that they start. */
export async function usageOf({ pid = 0 }: Pick<ChildProcess, 'pid'>): Promise<Usage> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const bytes = (field: string): number => 1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]);
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? [];
  const time = (user: number): number => (Number(fields[user]) + Number(fields[user + 1])) / TICKS;
  return { memory: bytes('VmRSS'), peak: bytes('VmHWM'), cpu: time(11), children: time(13) };
}
