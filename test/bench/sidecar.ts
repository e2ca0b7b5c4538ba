// What a sidecar takes of its node: the bundle, run for real beside HAProxy and iptables in a network of its own, following functions that
// serve the sample cluster.

import type { ChildProcess } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { stopHaproxy } from '../../sidecar/haproxy/process.ts';
import { answers, end, start, startNetwork, until, usageOf } from './processes.ts';
import { kibibytes, medians, ROOT, type Row, seconds } from './subject.ts';

const FUNCTIONS = '127.0.0.1:9000';
const HEALTH = '127.0.0.1:9001';
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

async function runOnce(): Promise<Record<'sidecarMemory' | 'sidecarPeak' | 'sidecarCpu' | 'functionsMemory', number>> {
  const folder = await mkdtemp(join(tmpdir(), 'hg-bench-'));
  const started: ChildProcess[] = [];
  try {
    await chmod(folder, 0o711);
    const [token, state] = [join(folder, 'token'), join(folder, 'state')];
    await writeFile(token, 'bench\n');
    const inside = await startNetwork(started);
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
