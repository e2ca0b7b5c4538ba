// `headgate up`: the whole system on this machine. A directory store, the functions, one sidecar with HAProxy and, as root on Linux,
// iptables, in a network namespace of its own; a folder of manifests that is watched; pods that answer.

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { access, cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { errorMessage, HeadgateError } from '../../../shared/error.ts';
import { findHaproxy } from '../../../sidecar/haproxy/capabilities.ts';
import { stopHaproxy } from '../../../sidecar/haproxy/process.ts';
import { openStateDirectory } from '../../../sidecar/state-directory.ts';
import { type Child, startCommand } from '../../local/children.ts';
import { checkFreePorts } from '../../local/free-ports.ts';
import { createNamespace, deleteNamespace, whyNotIsolated } from '../../local/namespace.ts';
import {
  type LocalPlan,
  LOOPBACK_PODS,
  localOptions,
  localPlan,
  NODE_NAME,
  relaySocket,
  SAMPLE_PODS,
  servedPorts,
} from '../../local/plan.ts';
import { relay } from '../../local/relay.ts';
import { addressesToTry } from '../../local/try.ts';
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
    await openPublishingStore(store);
    await run(plan, store, stopped);
  } finally {
    await held.release();
  }
}

/** @throws HeadgateError `haproxy-missing` or `haproxy-unusable` */
async function checkHaproxy(): Promise<void> {
  await findHaproxy('haproxy').catch((cause: unknown) => {
    if (!(cause instanceof HeadgateError) || cause.code !== 'haproxy-missing') throw cause;
    const message = 'HAProxy is not installed; as root, sh infra/setup.sh (or apt-get install haproxy) installs it';
    throw new HeadgateError('haproxy-missing', 'serve', message, { cause });
  });
}

/** Starts everything, says what to try, waits for the end, and takes everything away again. */
async function run(plan: LocalPlan, store: string, stopped: AbortSignal): Promise<void> {
  if (process.stderr.isTTY) process.stderr.write('Starting ...\n');
  const children: Child[] = [];
  const relays: { close(): void }[] = [];
  try {
    await clearAway(plan);
    if (plan.namespace !== null) await createNamespace(plan.namespace);
    await start({ plan, store, stopped, children, relays });
    const failed = Promise.race(children.map(async (child) => (await child.ended, child)));
    const ready = untilAnswers(plan.ports.sidecar, '/readyz', stopped);
    const first = await Promise.race([ready, failed]);
    if (typeof first === 'object' && !stopped.aborted) throw childError(first);
    if (!stopped.aborted) await sayWhatToTry(plan, store);
    const ended = await Promise.race([failed, untilAborted(stopped)]);
    if (ended !== undefined && !stopped.aborted) throw childError(ended);
  } finally {
    if (stopped.aborted) printLine('Stopping.');
    for (const child of children.toReversed()) await child.stop();
    for (const one of relays) one.close();
    await stopHaproxy(sidecarState(plan));
    if (plan.namespace !== null) await deleteNamespace(plan.namespace);
  }
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

interface Run {
  readonly plan: LocalPlan;
  readonly store: string;
  readonly stopped: AbortSignal;
  /** What was started so far, for whoever has to stop it. */
  readonly children: Child[];
  readonly relays: { close(): void }[];
}

async function start({ plan, store, stopped, children, relays }: Run): Promise<void> {
  const { functions, sidecar } = plan.ports;
  const token = join(plan.state, 'token');
  if (plan.namespace !== null) {
    for (const port of servedPorts(plan)) relays.push(await relay({ host: '127.0.0.1', port }, { path: relaySocket(plan, port) }));
    relays.push(await relay({ path: relaySocket(plan, functions) }, { host: '127.0.0.1', port: functions }));
  }
  const serve = ['serve', '--store', store, '--cluster', plan.cluster, '--listen', `127.0.0.1:${functions}`, '--token-file', token];
  const key = ['--sealing-key', join(plan.state, 'sealing-key')];
  children.push(await startCommand('pods', ['up-node', '--plan', planFile(plan)], plan.namespace));
  const host = await startCommand('functions', [...serve, ...key, '--options', join(plan.state, 'options.yaml')], null);
  children.push(host);
  // A sidecar that finds nobody says so: a needless line when the functions only need a moment.
  await Promise.race([untilAnswers(functions, '/healthz', stopped), host.ended]);
  const node = ['sidecar', '--stream', `ws://127.0.0.1:${functions}/stream`, '--node', NODE_NAME, '--state', sidecarState(plan)];
  const roles = plan.namespace === null ? 'router' : 'router,service-proxy';
  const listen = ['--token-file', token, '--roles', roles, '--listen', `127.0.0.1:${sidecar}`];
  children.push(await startCommand('sidecar', [...node, ...listen, ...key], plan.namespace));
}

function childError(child: Child): HeadgateError {
  const words = child.lastWords();
  return new HeadgateError('part-ended', 'serve', `the ${child.name} ended${words === '' ? '' : `: ${words}`}`);
}

function sidecarState(plan: LocalPlan): string {
  return join(plan.state, 'node');
}

function planFile(plan: LocalPlan): string {
  return join(plan.state, 'plan.json');
}

/** Makes the state folder: the plan, options, token, sealing key and, when no cluster was named, a copy of the sample. */
async function prepare(plan: LocalPlan, withSample: boolean): Promise<void> {
  try {
    await mkdir(join(plan.state, 'relay'), { recursive: true });
    await writeFile(planFile(plan), `${JSON.stringify(plan, null, 2)}\n`);
    await writeFile(join(plan.state, 'options.yaml'), localOptions(plan));
    await writeOnce(join(plan.state, 'token'), `${randomBytes(24).toString('base64url')}\n`);
    await writeOnce(join(plan.state, 'sealing-key'), `${randomBytes(32).toString('base64')}\n`);
    if (withSample) await copySample(plan);
  } catch (cause) {
    throw new HeadgateError('bad-state', 'keep', `cannot prepare the state folder ${plan.state}: ${errorMessage(cause)}`, { cause });
  }
}

async function writeOnce(file: string, text: string): Promise<void> {
  await access(file).catch(() => writeFile(file, text, { mode: 0o600 }));
}

/** The sample belongs to the user once it is copied: a later run leaves its edits alone. */
async function copySample(plan: LocalPlan): Promise<void> {
  const exists = await access(plan.cluster).then(
    () => true,
    () => false,
  );
  if (!exists) await cp(await sampleFolder(), plan.cluster, { recursive: true });
  const [from, to] = plan.namespace === null ? [SAMPLE_PODS, LOOPBACK_PODS] : [LOOPBACK_PODS, SAMPLE_PODS];
  for (const name of await readdir(plan.cluster)) {
    if (!name.endsWith('.yaml')) continue;
    const file = join(plan.cluster, name);
    const text = await readFile(file, 'utf8');
    if (text.includes(from)) await writeFile(file, text.replaceAll(from, to));
  }
}

/** infra/local/cluster, seen from the bundle as well as from this source. */
async function sampleFolder(): Promise<string> {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const above of ['..', '../..', '../../..']) {
    const folder = join(here, above, 'infra', 'local', 'cluster');
    if (
      await access(folder).then(
        () => true,
        () => false,
      )
    )
      return folder;
  }
  throw new HeadgateError('no-sample', 'usage', 'the sample cluster is not installed here; name a folder of manifests with --cluster DIR');
}

const LOOK_AGAIN_MS = 100;

/** Resolves once a port answers 200, or the run is stopped. */
async function untilAnswers(port: number, path: string, stopped: AbortSignal): Promise<'ready'> {
  while (!stopped.aborted) {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(2_000) }).catch(() => null);
    if (answer?.status === 200) break;
    await setTimeout(LOOK_AGAIN_MS);
  }
  return 'ready';
}

async function untilAborted(signal: AbortSignal): Promise<undefined> {
  if (!signal.aborted) await once(signal, 'abort');
  return undefined;
}

async function sayWhatToTry(plan: LocalPlan, store: string): Promise<void> {
  for (const line of await addressesToTry(plan, store)) printLine(line);
}
