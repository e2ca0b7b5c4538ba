// What the service proxy costs a node, as CPU time with all programs that the sidecar runs: a full load, one changed service, and a
// restart, beside the bare tool on the same rules (the floor); and the memory of a sidecar that has applied all of it. Medians of
// nine.

import { setTimeout as sleep } from 'node:timers/promises';
import { BACK_ENDS, type BackEnd } from '../../sidecar/iptables/tool.ts';
import { ServiceNode } from './service-node.ts';
import { counted, kibibytes, medianOf, type Row, seconds } from './subject.ts';

const SIZES = [1_000, 5_000, 10_000];
const LOADS = 9;
const CHANGES = 9;
/** What follows an application: its report, and the last of its programs. */
const SETTLE_MS = 1_000;
const MEMORY_MS = 30_000;

type Progress = (what: string) => void;

export async function measureIptables(progress: Progress): Promise<Row[]> {
  if (process.getuid?.() !== 0) return [{ what: 'iptables', value: 'skipped', unit: 'needs root, for a network of its own' }];
  const rows: Row[] = [];
  for (const size of SIZES) for (const backEnd of BACK_ENDS) rows.push(...(await measureNode(backEnd, size, progress)));
  return rows;
}

async function measureNode(backEnd: BackEnd, size: number, progress: Progress): Promise<Row[]> {
  const name = `${backEnd}, ${counted(size)} services x 5 endpoints:`;
  const loads: Load[] = [];
  while (loads.length < LOADS) {
    progress(`${name} full load ${loads.length + 1}`);
    await withNode(backEnd, size, async (node) => loads.push(await measureLoad(node)), true);
  }
  return withNode(backEnd, size, async (node) => {
    progress(`${name} full load before the changes`);
    await measureLoad(node);
    progress(`${name} memory`);
    await sleep(MEMORY_MS);
    const { memory } = await node.usage();
    const { change, floor } = await measureChanges(node, (turn) => progress(`${name} change ${turn}`));
    progress(`${name} restart`);
    await node.killSidecar();
    const again = await node.startSidecar();
    return [
      seconds(`${name} full load, the tool alone on the same rules`, medianOf(loads.map(({ floor: bare }) => bare))),
      seconds(`${name} full load, the commits of the sidecar`, medianOf(loads.map(({ commits }) => commits))),
      seconds(`${name} full load, all programs of the sidecar`, medianOf(loads.map(({ programs }) => programs))),
      seconds(`${name} full load, the sidecar itself from its start`, medianOf(loads.map(({ own }) => own))),
      kibibytes(`${name} sidecar, memory (VmRSS) 30 s after that`, memory),
      seconds(`${name} one service changed, the tool alone`, floor),
      seconds(`${name} one service changed, sidecar and programs`, change),
      seconds(`${name} restart of the sidecar, with programs`, again.cpu + again.children),
    ];
  });
}

/** Seconds. */
interface Load {
  /** The tool alone. */
  readonly floor: number;
  /** iptables-restore as the sidecar called it. */
  readonly commits: number;
  readonly programs: number;
  readonly own: number;
}

async function measureLoad(node: ServiceNode): Promise<Load> {
  const { children, cpu } = await node.startSidecar();
  const commits = await node.commits();
  const saved = await node.saved();
  const input = node.backEnd === 'nft' ? saved.replace(/^\*nat$/m, '*nat\n-S') : saved;
  const floor = await withNode(node.backEnd, 0, (empty) => empty.bareRestore(input));
  return { floor, commits, programs: children, own: cpu };
}

async function withNode<T>(backEnd: BackEnd, size: number, work: (node: ServiceNode) => Promise<T>, timed = false): Promise<T> {
  const node = await ServiceNode.start(backEnd, size, timed);
  try {
    return await work(node);
  } finally {
    await node.stop();
  }
}

/** Samples of both in turn, so that what else the machine does disturbs both alike. */
async function measureChanges(
  node: ServiceNode,
  progress: (turn: number) => void,
): Promise<{ readonly change: number; readonly floor: number }> {
  const changes: number[] = [];
  const floors: number[] = [];
  await node.changeOneService();
  for (let turn = 1; turn <= CHANGES; turn += 1) {
    progress(turn);
    await sleep(SETTLE_MS);
    const before = await node.usage();
    await node.changeOneService();
    await sleep(SETTLE_MS);
    const after = await node.usage();
    changes.push(after.cpu + after.children - before.cpu - before.children);
    floors.push(await node.bareRestore(smallestChange(await node.saved(), '10.1.200.')));
  }
  return { change: medianOf(changes), floor: medianOf(floors) };
}

/** Rewrites, as they are, the chain of the endpoint whose address begins so, and the chain that leads to it. */
function smallestChange(saved: string, address: string): string {
  const lines = saved.split('\n');
  const endpointChain = chainOf(lines.find((line) => line.includes(`--to-destination ${address}`)));
  const serviceChain = chainOf(lines.find((line) => line.endsWith(`-j ${endpointChain}`)));
  const chains = [endpointChain, serviceChain];
  const rules = lines.filter((line) => chains.includes(chainOf(line)));
  return ['*nat', ...chains.map((chain) => `:${chain} - [0:0]`), ...rules, 'COMMIT', ''].join('\n');
}

function chainOf(line = ''): string {
  return /^-A (\S+)/.exec(line)?.[1] ?? '';
}
