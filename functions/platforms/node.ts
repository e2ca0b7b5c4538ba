// All functions behind one port of a Node process: HTTP, streams, and the process's own reasons to reconcile. The only
// platform that can hold WebSockets; it also serves where a platform runs a container.

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { listenOn, type Listen } from '../../shared/listen.ts';
import type { Logger } from '../../shared/logger.ts';
import type { SealingKey } from '../../shared/seal.ts';
import type { VersionStore } from '../../shared/version-store.ts';
import { BlobFrames } from '../blob-frames.ts';
import type { ClusterSource } from '../cluster/objects.ts';
import { diffVersions } from '../diff.ts';
import { FleetReporter } from '../fleet.ts';
import { HeadSource } from '../head-source.ts';
import { HostMetrics } from '../host-metrics.ts';
import { httpHandler } from '../http.ts';
import { accessCheck } from '../http/access.ts';
import { healthEndpoints, type Readiness } from '../http/health.ts';
import { nodeEndpoints } from '../http/nodes.ts';
import { type Operations, operatorEndpoints } from '../http/operate.ts';
import { triggerEndpoints } from '../http/triggers.ts';
import { listVersions, resume, rollback, showVersion, status } from '../operate.ts';
import type { Options } from '../options.ts';
import { ReconcileLoop } from '../reconcile-loop.ts';
import { reportNodes, reportToAll } from '../stream-reports.ts';
import { checkTokenFile } from '../tokens.ts';
import { clusterTriggers, type PassOutcome } from '../triggers.ts';
import { nodeServer } from './node-server.ts';
import { StreamServer } from './websocket.ts';

export interface HostOptions {
  readonly listen: Listen;
  readonly store: VersionStore;
  readonly cluster: ClusterSource;
  readonly options: Options;
  /** Tokens of nodes, one a line. */
  readonly tokenFile: string;
  /** Null: what operators ask for is answered on this machine only. */
  readonly operatorTokenFile: string | null;
  /** Null: certificates are stored in the clear. */
  readonly sealingKey: SealingKey | null;
  readonly logger: Logger;
  /** Calls back after each change of the cluster, where it can be watched. */
  readonly watch?: (onChange: () => void) => { close(): void };
}

export interface Host {
  /** `http://HOST:PORT`, with the port listened on. */
  readonly url: string;
  readonly port: number;
  /** Ends the streams and what is being done; the head stays as it is. */
  close(): Promise<void>;
}

/** @throws HeadgateError `port-in-use`, `bad-listen`, `token-file-unreadable` or `token-file-empty` (stage `serve`) */
export async function startHost(options: HostOptions): Promise<Host> {
  const { listen, store, tokenFile, operatorTokenFile, logger } = options;
  await Promise.all([tokenFile, operatorTokenFile].map(async (file) => file !== null && (await checkTokenFile(file))));
  const closing = new AbortController();
  const metrics = new HostMetrics();
  const fleet = new FleetReporter({ objects: store.objects, replica: replicaName(listen), logger });
  const source = new HeadSource({ store, logger });
  const loop = reconcileLoop(options, closing.signal, (outcome) => {
    metrics.looked(outcome);
    source.notice();
  });
  const reports = reportToAll([metrics, reportNodes(fleet, logger)]);
  const streams = new StreamServer({ source, frames: new BlobFrames(store), reports, tokenFile, logger });
  const endpoints = [
    ...triggerEndpoints(loop),
    ...operatorEndpoints(operationsOn(store, () => source.notice())),
    ...nodeEndpoints({ store, source, reports: fleet }),
    ...healthEndpoints({ readiness: () => readinessOf(source, loop), metrics: () => metrics.text(source) }),
  ];
  const handle = httpHandler(endpoints, accessCheck({ tokenFile, operatorTokenFile }), logger);
  const server = nodeServer(handle, (request, socket, head) => streams.upgrade(request, socket, head), logger);
  const watch = options.watch?.(() => loop.changed('folder'));
  const port = await listenOn(server, listen).catch((thrown: unknown) => {
    watch?.close();
    throw thrown;
  });
  source.start();
  loop.start();

  return {
    url: `http://${listen.host.includes(':') ? `[${listen.host}]` : listen.host}:${port}`,
    port,
    async close() {
      closing.abort();
      watch?.close();
      const closed = new Promise((resolve) => server.close(resolve));
      await Promise.all([streams.close(), loop.close(), source.close()]);
      server.closeAllConnections();
      await closed;
      await fleet.close();
    },
  };
}

function reconcileLoop(
  { store, cluster, options, sealingKey, logger }: HostOptions,
  signal: AbortSignal,
  onPass: (outcome: PassOutcome) => void,
): ReconcileLoop {
  const holder = randomUUID();
  const triggers = clusterTriggers({ store, cluster, options, sealingKey: sealingKey ?? undefined, logger, signal, holder, onPass });
  return new ReconcileLoop({ triggers, logger });
}

/**
 * A host is ready when nodes can follow it: once it has a head to offer. That the cluster cannot be reconciled is said, and takes no
 * host away from the nodes.
 */
function readinessOf(source: HeadSource, loop: ReconcileLoop): Readiness {
  const reasons = [loop.problem, source.problem].filter((reason) => reason !== null);
  if (source.current !== null) return { ready: source.problem === null, reasons };
  return { ready: false, reasons: reasons.length > 0 ? reasons : ['nothing was published yet'] };
}

function operationsOn(store: VersionStore, onMove: () => void): Operations {
  return {
    versions: () => listVersions(store),
    version: (number) => showVersion(store, number),
    diff: (from, to) => diffVersions(store, from, to),
    fleet: () => status(store),
    async rollback({ roles = ['router'], ...request }) {
      const head = await rollback({ store, roles, ...request });
      onMove();
      return head;
    },
    async resume(request) {
      const resumed = await resume({ store, ...request });
      onMove();
      return resumed;
    },
  };
}

/** The same after a restart, so that its reports replace the earlier ones. */
function replicaName({ port }: Listen): string {
  return `${hostname().replace(/[^A-Za-z0-9.-]/g, '-')}-${port === 0 ? randomUUID() : port}`;
}
