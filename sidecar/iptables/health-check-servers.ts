// Listens at the health-check node ports and answers what a load balancer asks, as kube-proxy does. A port that cannot be had is
// tried again for as long as it is wanted: it never keeps the rules from being applied.

import { createServer, type Server, type ServerResponse } from 'node:http';
import { errnoCode, errorMessage } from '../../shared/error.ts';
import { addressPort } from '../../shared/iptables/addresses.ts';
import type { HealthCheck } from '../../shared/iptables/ruleset.ts';
import type { Logger } from '../../shared/logger.ts';

/** Milliseconds between tries of ports that could not be had. */
const RETRY_MS = 5_000;
/** A request is a line and a few headers (ms): who keeps them back is let go. */
const LIMITS = { requestTimeout: 5_000, headersTimeout: 5_000, connectionsCheckingInterval: 5_000 };

/** `HealthCheckServers`, or what stands in for them. */
export interface HealthCheckListeners {
  /** These are answered from now on, and no others. Resolves when each listens or could not. */
  show(checks: readonly HealthCheck[]): Promise<void>;
  close(): Promise<void>;
}

interface Answering {
  check: HealthCheck;
  /** Null: it could not listen yet. */
  server: Server | null;
  /** The failure was logged. */
  reported: boolean;
}

export class HealthCheckServers implements HealthCheckListeners {
  readonly #logger: Logger;
  readonly #retryMs: number;
  readonly #answering = new Map<string, Answering>();
  #retry: NodeJS.Timeout | null = null;

  /** @param retryMs between tries of ports that could not be had */
  constructor(logger: Logger, retryMs: number = RETRY_MS) {
    this.#logger = logger;
    this.#retryMs = retryMs;
  }

  async show(checks: readonly HealthCheck[]): Promise<void> {
    const wanted = new Map(checks.map((check) => [placeOf(check), check]));
    for (const [place, { server }] of this.#answering) {
      if (wanted.has(place)) continue;
      this.#answering.delete(place);
      await ended(server);
    }
    for (const [place, check] of wanted) {
      const known = this.#answering.get(place);
      if (known === undefined) this.#answering.set(place, { check, server: null, reported: false });
      else known.check = check;
    }
    await this.#listen();
  }

  async close(): Promise<void> {
    await this.show([]);
  }

  /** Tries those that do not listen yet. */
  async #listen(): Promise<void> {
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#retry = null;
    const silent = [...this.#answering.values()].filter(({ server }) => server === null);
    await Promise.all(silent.map((answering) => this.#open(answering)));
    if ([...this.#answering.values()].every(({ server }) => server !== null)) return;
    this.#retry = setTimeout(() => void this.#listen(), this.#retryMs).unref();
  }

  async #open(answering: Answering): Promise<void> {
    const { address: host, port } = answering.check;
    const server = createServer(LIMITS, (_, response) => {
      answer(response, answering.check);
    });
    try {
      await listening(server, { host, port, ipv6Only: host.includes(':') });
    } catch (error) {
      if (!answering.reported) this.#report(answering.check, error);
      answering.reported = true;
      return;
    }
    // What runs the node decides how long the process lives; a load balancer's question does not.
    server.unref();
    const wanted = this.#answering.get(placeOf(answering.check)) === answering;
    if (wanted && answering.server === null) answering.server = server;
    else await ended(server);
  }

  #report({ address, port, namespace, name }: HealthCheck, error: unknown): void {
    const reason = errnoCode(error) === 'EADDRINUSE' ? 'another program listens there' : errorMessage(error);
    const at = addressPort(address, port);
    this.#logger.warn({ service: `${namespace}/${name}`, at, reason }, 'the health-check node port cannot be answered; it is tried again');
  }
}

function placeOf({ address, port }: HealthCheck): string {
  return addressPort(address, port);
}

async function listening(server: Server, at: { readonly host: string; readonly port: number; readonly ipv6Only: boolean }): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(at, resolve);
  });
}

/** The field's answer, whatever is asked: load balancers look at the status, some at the weight. */
function answer(response: ServerResponse, { namespace, name, localEndpoints }: HealthCheck): void {
  response.writeHead(localEndpoints > 0 ? 200 : 503, {
    'content-type': 'application/json',
    'x-content-type-options': 'nosniff',
    'x-load-balancing-endpoint-weight': String(localEndpoints),
  });
  // Only rules that are applied are answered for, so that the proxy is healthy by its own account.
  response.end(`${JSON.stringify({ service: { namespace, name }, localEndpoints, serviceProxyHealthy: true }, null, '\t')}\n`);
}

async function ended(server: Server | null): Promise<void> {
  if (server === null) return;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}
