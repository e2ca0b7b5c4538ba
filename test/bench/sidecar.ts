// What a sidecar takes of its node: the bundle, run for real beside HAProxy and iptables in a network of its own, following functions that
// serve the sample cluster.

import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdtemp, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { stopHaproxy } from '../../sidecar/haproxy/process.ts';
import { runProgram } from '../../sidecar/run-program.ts';
import { kibibytes, medians, ROOT, type Row, seconds } from './subject.ts';

const FUNCTIONS = '127.0.0.1:9000';
const HEALTH = '127.0.0.1:9001';
const READY_MS = 30_000;
const SETTLE_MS = 5_000;

export async function measureSidecar(progress: (what: string) => void): Promise<Row[]> {
  if (process.getuid?.() !== 0) return [{ what: 'sidecar', value: 'skipped', unit: 'needs root, for a network of its own' }];
  const took = await medians(async (turn) => (progress(`run ${turn}`), runOnce()));
  return [
    kibibytes('sidecar, memory (VmRSS) 5 s after it is ready', took.sidecarMemory),
    kibibytes('sidecar, most memory so far (VmHWM)', took.sidecarPeak),
    seconds('sidecar, from start to 5 s after it is ready', took.sidecarCpu),
    kibibytes('functions (`serve`), memory (VmRSS) at the same time', took.functionsMemory),
  ];
}

/** Bytes and seconds. */
interface Usage {
  readonly memory: number;
  readonly peak: number;
  readonly cpu: number;
}

async function runOnce(): Promise<Record<'sidecarMemory' | 'sidecarPeak' | 'sidecarCpu' | 'functionsMemory', number>> {
  const folder = await mkdtemp(join(tmpdir(), 'hg-bench-'));
  const started: ChildProcess[] = [];
  try {
    await chmod(folder, 0o711);
    const [token, state] = [join(folder, 'token'), join(folder, 'state')];
    await writeFile(token, 'bench\n');
    const network = start(started, ['unshare', '--net', 'sleep', '600']);
    const inside = ['nsenter', `--net=/proc/${network.pid}/ns/net`, '--'];
    const ownNetwork = await readlink('/proc/self/ns/net');
    await until('the network is made', async () => (await readlink(`/proc/${network.pid}/ns/net`)) !== ownNetwork);
    await runProgram([...inside, 'ip', 'link', 'set', 'lo', 'up']);
    const store = ['--store', pathToFileURL(join(folder, 'store')).href, '--cluster', join(ROOT, 'infra/local/cluster')];
    const serve = ['serve', ...store, '--listen', FUNCTIONS, '--token-file', token];
    const functions = start(started, [...inside, process.execPath, join(ROOT, 'infra/cli/headgate.mjs'), ...serve]);
    await until('the functions are ready', () => answers(inside, FUNCTIONS));
    const follow = ['sidecar', '--stream', `ws://${FUNCTIONS}/stream`, '--node', 'local', '--token-file', token, '--state', state];
    const sidecar = start(started, [...inside, process.execPath, join(ROOT, 'dist/sidecar.mjs'), ...follow, '--listen', HEALTH]);
    await until('the sidecar is ready', () => answers(inside, HEALTH));
    await sleep(SETTLE_MS);
    const [ofSidecar, ofFunctions] = [await usageOf(sidecar), await usageOf(functions)];
    return {
      sidecarMemory: ofSidecar.memory,
      sidecarPeak: ofSidecar.peak,
      sidecarCpu: ofSidecar.cpu,
      functionsMemory: ofFunctions.memory,
    };
  } finally {
    for (const child of started.toReversed()) await end(child);
    await stopHaproxy(join(folder, 'state'));
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

function start(started: ChildProcess[], [program = '', ...args]: readonly string[]): ChildProcess {
  const child = spawn(program, args, { stdio: 'ignore', env: { ...process.env, HEADGATE_LOG: 'silent' } });
  started.push(child);
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('close', resolve));
  child.kill('SIGTERM');
  await ended;
}

async function answers(inside: readonly string[], at: string): Promise<boolean> {
  return (await runProgram([...inside, 'curl', '--silent', '--fail', '--max-time', '2', `http://${at}/readyz`])).code === 0;
}

async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  for (const last = Date.now() + READY_MS; !(await condition()); await sleep(100)) {
    if (Date.now() > last) throw new Error(`not after ${READY_MS} ms: ${what}`);
  }
}

/** Linux counts CPU time in hundredths of a second for every program. */
const TICKS = 100;

/** What the kernel says of a process: `unshare` and `nsenter` become the program that they start. */
async function usageOf({ pid = 0 }: ChildProcess): Promise<Usage> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const bytes = (field: string): number => 1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]);
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? [];
  return { memory: bytes('VmRSS'), peak: bytes('VmHWM'), cpu: (Number(fields[11]) + Number(fields[12])) / TICKS };
}
