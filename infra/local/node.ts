// The part of a local run that stands in for a node's surroundings, inside its network namespace when it has one: the pods, and the
// relays across the namespace's border. It ends on SIGTERM.

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { directoryCluster, watchDirectory } from '../../functions/cluster/directory.ts';
import { errorMessage } from '../../shared/error.ts';
import { createLogger, type Logger } from '../../shared/logger.ts';
import { stopSignal } from '../cli/flags.ts';
import { addPodAddress } from './namespace.ts';
import { type LocalPlan, localPlanSchema, relaySocket, servedPorts } from './plan.ts';
import { Pods, podsOf } from './pods.ts';
import { relay } from './relay.ts';

export async function runLocalNode(planFile: string): Promise<void> {
  const stopped = stopSignal();
  const plan = localPlanSchema.parse(JSON.parse(await readFile(planFile, 'utf8')));
  const logger = createLogger(process.env['HEADGATE_LOG'] ?? 'warn', { part: 'pods' });
  const relays = plan.namespace === null ? [] : await openRelays(plan);
  const pods = new Pods(plan.namespace === null ? async () => {} : addPodAddress, logger);
  const follow = followOneAtATime(() => showPods(plan.cluster, pods, logger));
  const watch = watchDirectory(plan.cluster, () => follow.again());
  follow.again();
  if (!stopped.aborted) await once(stopped, 'abort');
  watch.close();
  await follow.idle();
  for (const one of relays) one.close();
  await pods.close();
}

async function openRelays(plan: LocalPlan): Promise<{ close(): void }[]> {
  const { functions } = plan.ports;
  return Promise.all([
    ...servedPorts(plan).map((port) => relay({ path: relaySocket(plan, port) }, { host: '127.0.0.1', port })),
    relay({ host: '127.0.0.1', port: functions }, { path: relaySocket(plan, functions) }),
  ]);
}

async function showPods(cluster: string, pods: Pods, logger: Logger): Promise<void> {
  try {
    await pods.show(podsOf(await directoryCluster(cluster).read()));
  } catch (error) {
    logger.debug({ reason: errorMessage(error) }, 'the cluster does not read; pods stay as they are');
  }
}

/** Runs a piece of work again after each call of `again`, never twice at once, never losing the last call. */
function followOneAtATime(work: () => Promise<void>): { again(): void; idle(): Promise<void> } {
  let wanted = false;
  let running: Promise<void> | null = null;
  const run = async (): Promise<void> => {
    while (wanted) {
      wanted = false;
      await work();
    }
    running = null;
  };
  return {
    again: () => {
      wanted = true;
      running ??= run();
    },
    idle: async () => running ?? undefined,
  };
}
