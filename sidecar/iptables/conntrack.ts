// UDP flows outlive the rules that made them: a client that keeps sending would reach an endpoint that serves no more, or
// the bare service address, for as long as it keeps sending. After a commit, such flows are deleted from the kernel's table.

import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { Logger } from '../../shared/logger.ts';
import type { RunProgram } from '../run-program.ts';

/** Service address -> its serving endpoints on this node, as in `ProxyState`: `172.30.0.10:53`, `[fd00::10]:53`, `0.0.0.0:30053`. */
export type UdpServices = ReadonlyMap<string, readonly string[]>;

/** All flows of a service address that one source answers. */
export interface UdpFlow {
  /** Original destination. */
  readonly service: string;
  /** Reply source: an endpoint, or the service address itself when nothing translated it. */
  readonly source: string;
}

const LIMIT = 64 * 1024 * 1024;

/** Remembers which service addresses changed until their flows are cleaned. */
export class ConntrackCleaner {
  readonly #run: RunProgram;
  readonly #logger: Logger;
  #services: UdpServices = new Map();
  readonly #due = new Set<string>();
  #toolMissed = false;

  constructor(run: RunProgram, logger: Logger) {
    this.#run = run;
    this.#logger = logger;
  }

  /**
   * The rules of these services are committed: those that differ from before, and those that went, are to be cleaned. `earlier` names
   * addresses that were served before by whom we do not remember.
   */
  committed(services: UdpServices, earlier: readonly string[] = []): void {
    for (const [service, endpoints] of services) {
      if (this.#services.get(service)?.join() !== endpoints.join()) this.#due.add(service);
    }
    for (const service of [...this.#services.keys(), ...earlier]) if (!services.has(service)) this.#due.add(service);
    this.#services = services;
  }

  /** Cleans what is due. What could not be done stays due, and is logged; it never throws for that. */
  async clean(signal: AbortSignal): Promise<void> {
    for (const family of ['ipv4', 'ipv6'] as const) {
      const due = [...this.#due].filter((service) => (family === 'ipv6') === service.startsWith('['));
      if (due.length > 0) await this.#cleanFamily(family, due, signal);
    }
  }

  async #cleanFamily(family: 'ipv4' | 'ipv6', due: readonly string[], signal: AbortSignal): Promise<void> {
    try {
      const listed = await conntrack(this.#run, ['-L', '-p', 'udp', '-f', family], signal);
      const stale = staleFlows(listed, new Set(due), this.#services);
      for (const flow of stale) await conntrack(this.#run, ['-D', '-p', 'udp', '-f', family, ...flowArguments(flow)], signal);
      for (const service of due) this.#due.delete(service);
      if (stale.length > 0) this.#logger.info({ family, flows: stale.length }, 'deleted UDP flows to endpoints that serve no more');
    } catch (error) {
      signal.throwIfAborted();
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    const missing = error instanceof HeadgateError && error.code === 'program-missing';
    if (missing && this.#toolMissed) return;
    this.#toolMissed ||= missing;
    const message = missing
      ? 'conntrack is not installed: UDP clients may keep reaching endpoints that are gone; install the package conntrack (conntrack-tools)'
      : 'UDP flows to endpoints that are gone could not be deleted; it is tried again';
    this.#logger.warn({ error: errorMessage(error) }, message);
  }
}

/**
 * The flows in `conntrack -L` output to delete: to a service address that is due, answered by what is not one of its serving endpoints. A
 * node port at every address is known by the port alone, as kube-proxy has it: which addresses the node has may change at any time. Of a
 * service that is gone, flows that nothing translated stay: they belong to whoever has the address now.
 */
export function staleFlows(listed: string, due: ReadonlySet<string>, services: UdpServices): UdpFlow[] {
  const flows = new Map<string, UdpFlow>();
  for (const line of listed.split('\n')) {
    const flow = parseFlow(line);
    if (flow === null) continue;
    const place = due.has(flow.service) || services.has(flow.service) ? flow.service : everyAddress(flow.service);
    if (!due.has(place)) continue;
    const serving = services.get(place) ?? [flow.service];
    if (!serving.includes(flow.source)) flows.set(`${flow.service} ${flow.source}`, flow);
  }
  return [...flows.values()];
}

function parseFlow(line: string): UdpFlow | null {
  const values = (name: string): string[] => [...line.matchAll(new RegExp(`\\b${name}=(\\S+)`, 'g'))].map((match) => match[1] ?? '');
  const service = joinAddress(values('dst')[0], values('dport')[0]);
  const source = joinAddress(values('src')[1], values('sport')[1]);
  return service === null || source === null ? null : { service, source };
}

/** The place of a node port that answers at every address. */
function everyAddress(service: string): string {
  const [address, port] = splitAddress(service);
  return address.includes(':') ? `[::]:${port}` : `0.0.0.0:${port}`;
}

/** `address:port`, IPv6 in brackets. */
export function joinAddress(address: string | undefined, port: string | undefined): string | null {
  if (address === undefined || port === undefined) return null;
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

function flowArguments({ service, source }: UdpFlow): string[] {
  const [dst, dport] = splitAddress(service);
  const [src, sport] = splitAddress(source);
  return ['--orig-dst', dst, '--orig-port-dst', dport, '--reply-src', src, '--reply-port-src', sport];
}

function splitAddress(text: string): [address: string, port: string] {
  const colon = text.lastIndexOf(':');
  return [text.slice(0, colon).replace(/^\[|\]$/g, ''), text.slice(colon + 1)];
}

/** Runs conntrack; that nothing matched is no failure. */
async function conntrack(run: RunProgram, args: readonly string[], signal: AbortSignal): Promise<string> {
  const { code, stdout, stderr, truncated } = await run(['conntrack', ...args], { signal, outputLimit: LIMIT });
  if (truncated) throw new HeadgateError('conntrack-failed', 'apply', `conntrack printed more than ${LIMIT} bytes`);
  if (code === 0 || /\b0 flow entries/.test(stderr)) return stdout;
  throw new HeadgateError('conntrack-failed', 'apply', `conntrack ${args[0]} failed (exit ${code}): ${errorMessage(stderr)}`);
}
