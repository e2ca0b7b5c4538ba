// The fleet: what each node runs, as its stream reported it. Every replica of the functions merges what its own nodes say
// into `fleet/<replica>.json`; whoever wants the whole picture reads them all, and the newest word on a node stands. Reports
// are for people: losing the last seconds of them loses nothing else.

import { z } from 'zod';
import { errorMessage } from '../shared/error.ts';
import { canonicalJson, compareText } from '../shared/json.ts';
import type { Logger } from '../shared/logger.ts';
import type { ObjectStore } from '../shared/object-store/object-store.ts';
import { mapParallel } from '../shared/parallel.ts';
import { type Hello, type Result, resultSchema } from '../shared/protocol.ts';
import type { Role } from '../shared/role.ts';

const resultsSchema = z.object({ router: resultSchema.optional(), 'service-proxy': resultSchema.optional() });

const nodeSchema = z.object({
  node: z.string(),
  /** The last result of each role; absent until it has reported one. */
  roles: resultsSchema,
  /** What each role runs: its last result that was applied, which stays when newer content is refused or fails. */
  running: resultsSchema,
  /** The highest sequence that it has confirmed, and the version of that; 0: none. */
  sequence: z.number(),
  version: z.number(),
  tools: z.record(z.string(), z.string()),
  /** The replica that it is connected to; null: it went. */
  connectedTo: z.string().nullable(),
  /** ISO 8601, UTC, the replica's clock. */
  lastSeen: z.string(),
});
export type FleetNode = Readonly<z.infer<typeof nodeSchema>>;

const replicaSchema = z.object({ format: z.literal(1), replica: z.string(), nodes: z.record(z.string(), nodeSchema) });

export interface FleetReporterOptions {
  readonly objects: ObjectStore;
  /** Names this replica, unique among those that run: letters, digits, `.` and `-`. */
  readonly replica: string;
  readonly logger: Logger;
  /** Milliseconds between writes. Default 5,000. */
  readonly intervalMs?: number;
  readonly now?: () => Date;
}

/** What a stream tells of a node. Fields that are left out stay as they are. */
export interface NodeReport {
  readonly tools?: Readonly<Record<string, string>>;
  readonly result?: Result;
  /** Default true. */
  readonly connected?: boolean;
}

const INTERVAL_MS = 5_000;
/** Milliseconds in which reports that belong together, as those of both roles, come in. */
const TOGETHER_MS = 250;
const PARALLEL = 16;

/** Keeps what this replica's nodes report, and writes it at most once an interval. */
export class FleetReporter {
  readonly #options: FleetReporterOptions;
  readonly #nodes = new Map<string, FleetNode>();
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #changed = false;
  #writtenAt = Number.NEGATIVE_INFINITY;

  constructor(options: FleetReporterOptions) {
    this.#options = options;
  }

  /** A node said hello. */
  connected(hello: Hello): void {
    this.report(hello.node, { tools: hello.tools });
  }

  /** A node told how a role went. */
  result(node: string, result: Result): void {
    this.report(node, { result });
  }

  /** A node's stream ended. */
  disconnected(node: string): void {
    this.report(node, { connected: false });
  }

  /** What this replica knows of a node changed; it is written within the interval. */
  report(node: string, report: NodeReport): void {
    const now = (this.#options.now?.() ?? new Date()).toISOString();
    this.#nodes.set(node, updatedNode(this.#nodes.get(node), node, report, this.#options.replica, now));
    this.#changed = true;
    const { intervalMs = INTERVAL_MS } = this.#options;
    // The first word after a quiet time is written at once: somebody may be waiting to see it.
    const wait = Math.max(Math.min(TOGETHER_MS, intervalMs), this.#writtenAt + intervalMs - performance.now());
    this.#timer ??= setTimeout(() => void this.flush(), wait).unref();
  }

  /** Writes what is not yet written. Never throws: what the store refuses now is written with the next report. */
  flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  /** Writes the last reports. */
  close(): Promise<void> {
    return this.flush();
  }

  async #write(): Promise<void> {
    if (!this.#changed) return;
    this.#changed = false;
    this.#writtenAt = performance.now();
    const { objects, replica, logger } = this.#options;
    const text = `${canonicalJson({ format: 1, replica, nodes: Object.fromEntries(this.#nodes) })}\n`;
    try {
      await objects.put(`fleet/${replica}.json`, Buffer.from(text));
    } catch (thrown) {
      this.#changed = true;
      logger.warn({ replica, error: errorMessage(thrown) }, 'cannot write what the nodes reported; it is tried again with the next report');
    }
  }
}

/** Every node that ever reported, by name, as the newest reports have it. Reports that cannot be read are left out. */
export async function readFleet(objects: ObjectStore, signal?: AbortSignal): Promise<FleetNode[]> {
  const keys: string[] = [];
  for await (const key of objects.list('fleet/', signal)) keys.push(key);
  const found = await mapParallel(keys, PARALLEL, (key) => objects.get(key, signal));
  const nodes = new Map<string, FleetNode>();
  for (const { bytes } of found.filter((object) => object !== null)) {
    for (const node of parseNodes(bytes)) nodes.set(node.node, mergedNode(nodes.get(node.node) ?? node, node));
  }
  return [...nodes.values()].sort((a, b) => compareText(a.node, b.node));
}

function updatedNode(known: FleetNode | undefined, node: string, report: NodeReport, replica: string, now: string): FleetNode {
  const { result, tools, connected = true } = report;
  return {
    node,
    tools: tools ?? known?.tools ?? {},
    connectedTo: connected ? replica : null,
    lastSeen: now,
    ...results(
      { ...known?.roles, ...(result === undefined ? {} : { [result.role]: result }) },
      { ...known?.running, ...(result?.outcome === 'applied' ? { [result.role]: result } : {}) },
    ),
  };
}

/** A node may have moved from one replica to another: of each role the later result stands, of the rest the later word. */
function mergedNode(a: FleetNode, b: FleetNode): FleetNode {
  const later = a.lastSeen > b.lastSeen ? a : b;
  const last = (of: 'roles' | 'running'): FleetNode['roles'] => ({
    ...lastOf('router', a[of], b[of]),
    ...lastOf('service-proxy', a[of], b[of]),
  });
  return { ...later, ...results(last('roles'), last('running')) };
}

function lastOf(role: Role, ...known: readonly FleetNode['roles'][]): FleetNode['roles'] {
  const [last] = known
    .map((each) => each[role])
    .filter((result) => result !== undefined)
    .sort((x, y) => y.sequence - x.sequence || compareText(y.time, x.time));
  return last === undefined ? {} : { [role]: last };
}

function results(roles: FleetNode['roles'], running: FleetNode['running']): Pick<FleetNode, 'roles' | 'running' | 'sequence' | 'version'> {
  const [last] = Object.values(running)
    .filter((result) => result !== undefined)
    .sort((a, b) => b.sequence - a.sequence);
  return { roles, running, sequence: last?.sequence ?? 0, version: last?.version ?? 0 };
}

function parseNodes(bytes: Uint8Array): readonly FleetNode[] {
  try {
    return Object.values(replicaSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8'))).nodes);
  } catch {
    return [];
  }
}
