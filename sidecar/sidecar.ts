// A running sidecar: the state folder, a loop for each role, and the stream that feeds them. What the roles are is given.

import { errorMessage } from '../shared/error.ts';
import type { BackoffRange } from '../shared/backoff.ts';
import type { Listen } from '../shared/listen.ts';
import type { Logger } from '../shared/logger.ts';
import { Metrics } from '../shared/prometheus.ts';
import { RELEASE } from '../shared/release.ts';
import type { Role } from '../shared/role.ts';
import type { SealingKey } from '../shared/seal.ts';
import { Connection, RECONNECT } from './connection.ts';
import { HeadFollower } from './follow-head.ts';
import { type HealthServer, serveHealth } from './health-server.ts';
import { LastKnownGood } from './last-known-good.ts';
import { SidecarMetrics } from './metrics.ts';
import { ROLE_TIMINGS, RoleLoop, type RoleTimings } from './role-loop.ts';
import type { RoleApplier } from './role.ts';
import { openStateDirectory } from './state-directory.ts';

export interface SidecarOptions {
  readonly node: string;
  /** `ws://HOST:PORT/stream`, at least one. */
  readonly addresses: readonly string[];
  /** The state folder. */
  readonly state: string;
  readonly tokenFile: string;
  /** How each role of the node is opened, given the state folder's absolute path and the metrics that are served. */
  readonly roles: ReadonlyMap<Role, (state: string, served: Metrics) => Promise<RoleApplier>>;
  readonly sealingKeys: readonly SealingKey[];
  /** Where /healthz, /readyz and /metrics are served; null: nowhere. */
  readonly listen: Listen | null;
  readonly logger: Logger;
  /** How long to wait, for tests. */
  readonly timings?: RoleTimings;
  readonly reconnect?: BackoffRange;
}

export interface Sidecar {
  /** The port of /readyz and the others; null when they are not served. */
  readonly healthPort: number | null;
  /** What keeps the node from being ready, one reason each. */
  unready(): Promise<readonly string[]>;
  metrics(): string;
  /** Ends the stream and the loops. What runs on the node keeps running. */
  close(): Promise<void>;
}

/**
 * Starts from what is on disk, whether or not a host can be reached.
 * @throws HeadgateError when the state folder is in use or damaged, or the port is taken
 */
export async function startSidecar(options: SidecarOptions): Promise<Sidecar> {
  const { logger } = options;
  const directory = await openStateDirectory(options.state);
  const served = new Metrics();
  const metrics = new SidecarMetrics(served);
  let server: HealthServer | null = null;
  try {
    const memory = await LastKnownGood.open(directory.path);
    metrics.sequenceSeen(memory.seen?.sequence ?? 0);
    const { loops, connection } = wire(options, directory.path, memory, served, metrics);
    const unready = (): Promise<readonly string[]> => unreadyReasons([...loops.values()], memory);
    if (options.listen !== null) server = await serveHealth(options.listen, { unready, metrics: () => served.text() });
    for (const loop of loops.values()) loop.start();
    connection.start();
    const health = server;
    return {
      healthPort: health?.port ?? null,
      unready,
      metrics: () => served.text(),
      close: async () => {
        await connection.close();
        await Promise.all([...loops.values()].map((loop) => closeLoop(loop, logger)));
        await health?.close();
        await directory.release();
      },
    };
  } catch (thrown) {
    await server?.close();
    await directory.release();
    throw thrown;
  }
}

function wire(
  options: SidecarOptions,
  state: string,
  memory: LastKnownGood,
  served: Metrics,
  metrics: SidecarMetrics,
): { readonly loops: ReadonlyMap<Role, RoleLoop>; readonly connection: Connection } {
  const { node, logger, sealingKeys } = options;
  const loops = new Map<Role, RoleLoop>();
  const follower = new HeadFollower({
    node,
    roles: [...options.roles.keys()],
    memory,
    metrics,
    logger,
    tools: async () => {
      const tools = await Promise.all([...loops.values()].map((loop) => loop.tools()));
      return Object.assign({ headgate: RELEASE }, ...tools);
    },
    results: () => [...loops.values()].flatMap((loop) => loop.results()),
    inUse: () => [...loops.values()].flatMap((loop) => Object.values(loop.applying?.files ?? {})),
    onWanted: (role) => loops.get(role)?.wake(),
  });
  for (const [role, open] of options.roles) {
    const loop = new RoleLoop({
      role,
      open: () => open(state, served),
      memory,
      sealingKeys,
      timings: options.timings ?? ROLE_TIMINGS,
      metrics,
      logger,
      onResult: (result) => follower.report(result),
      onLostBlob: () => follower.fetchAgain(),
    });
    loops.set(role, loop);
  }
  const { addresses, tokenFile } = options;
  const connection = new Connection({ addresses, tokenFile, handler: follower, backoff: options.reconnect ?? RECONNECT, logger });
  return { loops, connection };
}

async function unreadyReasons(loops: readonly RoleLoop[], memory: LastKnownGood): Promise<string[]> {
  const reasons = await Promise.all(
    loops.map(async (loop) => {
      if (memory.record(loop.role).wanted === null) return `${loop.role}: no version yet`;
      const ready = await loop.ready().catch(() => false);
      return ready ? null : `${loop.role}: not applied yet`;
    }),
  );
  return reasons.filter((reason) => reason !== null);
}

async function closeLoop(loop: RoleLoop, logger: Logger): Promise<void> {
  try {
    await loop.close();
  } catch (thrown) {
    logger.warn({ role: loop.role, error: errorMessage(thrown) }, 'the role did not close cleanly');
  }
}
