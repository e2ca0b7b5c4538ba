// `headgate up`: the whole system on this machine. A directory store, the functions, one sidecar with HAProxy and, as root on Linux,
// iptables, in a network namespace of its own; a folder of manifests that is watched; pods that answer.

import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { HeadgateError } from '../../../shared/error.ts';
import type { VersionStore } from '../../../shared/version-store.ts';
import { findHaproxy } from '../../../sidecar/haproxy/capabilities.ts';
import { stopHaproxy } from '../../../sidecar/haproxy/process.ts';
import { LastKnownGood } from '../../../sidecar/last-known-good.ts';
import { openStateDirectory } from '../../../sidecar/state-directory.ts';
import { type Child, startCommand } from '../../local/children.ts';
import { checkFreePorts } from '../../local/free-ports.ts';
import { createNamespace, deleteNamespace, whyNotIsolated } from '../../local/namespace.ts';
import { narrate } from '../../local/narrate.ts';
import { type LocalPlan, localPlan, NODE_NAME, planFile, relaySocket, servedPorts, sidecarState } from '../../local/plan.ts';
import { prepare } from '../../local/prepare.ts';
import { relay } from '../../local/relay.ts';
import { addressesToTry } from '../../local/try.ts';
import { LOOK_AGAIN_MS, untilAnswers, untilServed } from '../../local/until-ready.ts';
import { watchablePath } from '../cluster.ts';
import { stopSignal } from '../flags.ts';
import { openPublishingStore } from '../open.ts';
import { printLine } from '../print.ts';

export interface UpFlags {
  readonly cluster?: string;
  readonly state: string;
  readonly store?: string;
  readonly portBase: number;
}

export async function up(flags: UpFlags): Promise<void> {
  const stopped = stopSignal();
  const state = resolve(flags.state);
  const cluster = flags.cluster === undefined ? null : resolve(await watchablePath(flags.cluster));
  await checkHaproxy();
  // Whoever starts a second run must not stop the first one's HAProxy.
  const held = await openStateDirectory(state);
  try {
    const reason = await whyNotIsolated();
    const plan = localPlan({ state, cluster, portBase: flags.portBase, isolated: reason === null });
    if (reason !== null) printLine(`Without the service proxy (${reason}); routes only, and pods on loopback.`);
    await prepare(plan, cluster === null);
    const store = flags.store ?? pathToFileURL(join(state, 'store')).href;
    const opened = await openPublishingStore(store);
    await startAnewWithAnotherStore(plan, opened.id);
    await run({ plan, store: opened, storeUrl: store, stopped, children: [], relays: [] });
  } finally {
    await held.release();
  }
}

/** A node follows one store for good, and this node belongs to this run: when the store is another one, so is the node. */
async function startAnewWithAnotherStore(plan: LocalPlan, store: string): Promise<void> {
  const held = await openStateDirectory(sidecarState(plan));
  const { seen } = await LastKnownGood.open(held.path);
  await held.release();
  if (seen === null || seen.store === store) return;
  printLine('The store is another one than before: the node starts anew.');
  await stopHaproxy(sidecarState(plan));
  await rm(sidecarState(plan), { recursive: true });
}

/** @throws HeadgateError `haproxy-missing` or `haproxy-unusable` */
async function checkHaproxy(): Promise<void> {
  await findHaproxy('haproxy').catch((cause: unknown) => {
    if (!(cause instanceof HeadgateError) || cause.code !== 'haproxy-missing') throw cause;
    const message = 'HAProxy is not installed; as root, sh infra/setup.sh (or apt-get install haproxy) installs it';
    throw new HeadgateError('haproxy-missing', 'serve', message, { cause });
  });
}

interface Run {
  readonly plan: LocalPlan;
  readonly store: VersionStore;
  readonly storeUrl: string;
  readonly stopped: AbortSignal;
  /** What was started so far, for whoever has to stop it. */
  readonly children: Child[];
  readonly relays: { close(): void }[];
}

/** Starts everything, says what to try, tells what happens until the end, and takes everything away again. */
async function run(parts: Run): Promise<void> {
  const { plan, stopped, children, relays } = parts;
  if (process.stderr.isTTY) process.stderr.write('Starting ...\n');
  try {
    await clearAway(plan);
    if (plan.namespace !== null) await createNamespace(plan.namespace);
    await start(parts);
    const over = AbortSignal.any([stopped, ...children.map((child) => child.over)]);
    await untilAnswers(plan.ports.sidecar, '/readyz', over);
    await tell(parts, over);
    const failed = children.find((child) => child.over.aborted);
    if (!stopped.aborted && failed !== undefined) throw childError(failed);
  } finally {
    if (stopped.aborted) printLine('Stopping.');
    for (const child of children.toReversed()) await child.stop();
    for (const one of relays) one.close();
    await stopHaproxy(sidecarState(plan));
    if (plan.namespace !== null) await deleteNamespace(plan.namespace);
  }
}

/** What to try, then what happens, until the run is over. */
async function tell({ plan, store, storeUrl }: Run, over: AbortSignal): Promise<void> {
  const served = await untilServed(store, plan.ports.sidecar, over);
  if (over.aborted) return;
  for (const line of await addressesToTry(plan, store, storeUrl)) printLine(line);
  if (!served) printLine('The node does not run this version yet: `headgate status` says why.');
  await narrate(store, printLine, over);
}

const PARTING_MS = 3_000;

/** A run that was killed leaves HAProxy behind, and for a moment its other parts. Nothing is started beside what stays. */
async function clearAway(plan: LocalPlan): Promise<void> {
  for (const end = Date.now() + PARTING_MS; ; await setTimeout(LOOK_AGAIN_MS)) {
    try {
      await (await openStateDirectory(sidecarState(plan))).release();
      await stopHaproxy(sidecarState(plan));
      return await checkFreePorts(Object.values(plan.ports));
    } catch (thrown) {
      if (!(thrown instanceof HeadgateError) || Date.now() > end) throw thrown;
    }
  }
}

async function start({ plan, storeUrl, stopped, children, relays }: Run): Promise<void> {
  const { functions, sidecar } = plan.ports;
  const token = join(plan.state, 'token');
  if (plan.namespace !== null) {
    for (const port of servedPorts(plan)) relays.push(await relay({ host: '127.0.0.1', port }, { path: relaySocket(plan, port) }));
    relays.push(await relay({ path: relaySocket(plan, functions) }, { host: '127.0.0.1', port: functions }));
  }
  const serve = ['serve', '--store', storeUrl, '--cluster', plan.cluster, '--listen', `127.0.0.1:${functions}`, '--token-file', token];
  const key = ['--sealing-key', join(plan.state, 'sealing-key')];
  children.push(await startCommand('pods', ['up-node', '--plan', planFile(plan)], plan.namespace));
  const host = await startCommand('functions', [...serve, ...key, '--options', join(plan.state, 'options.yaml')], null);
  children.push(host);
  // A sidecar that finds nobody says so: a needless line when the functions only need a moment.
  await untilAnswers(functions, '/healthz', AbortSignal.any([stopped, host.over]));
  const node = ['sidecar', '--stream', `ws://127.0.0.1:${functions}/stream`, '--node', NODE_NAME, '--state', sidecarState(plan)];
  const roles = plan.namespace === null ? 'router' : 'router,service-proxy';
  const listen = ['--token-file', token, '--roles', roles, '--listen', `127.0.0.1:${sidecar}`];
  children.push(await startCommand('sidecar', [...node, ...listen, ...key], plan.namespace));
}

function childError(child: Child): HeadgateError {
  const words = child.lastWords();
  return new HeadgateError('part-ended', 'serve', `the ${child.name} ended${words === '' ? '' : `: ${words}`}`);
}
