// Which endpoints of a service a node uses: by readiness, by topology, by locality. Follows the field's rules: ready ones
// come first, those that serve while they terminate only stand in when there is no ready one.

import type { Family } from '../endpoint.ts';
import { addressPort, familyOf } from './addresses.ts';
import type { ProxyEndpoint, ProxyNode, ProxyPort, ProxyService } from './service.ts';

/** Where a connection is sent. */
export interface Target {
  readonly address: string;
  /** `address:port`, IPv6 in brackets. */
  readonly text: string;
}

export interface Selection {
  /** For the cluster policy: ready ones that topology allows, else terminating ones anywhere. Empty only when nothing serves. */
  readonly cluster: readonly Target[];
  /** For the local policy: ready ones on this node, else terminating ones here. */
  readonly local: readonly Target[];
  /** Every one that serves, wherever it is: what a flow that leads there may keep. */
  readonly serving: readonly Target[];
}

interface Candidate extends Target {
  readonly endpoint: ProxyEndpoint;
}

/** The endpoints of a service's port, of one family, that the node uses. */
export function selectEndpoints(service: ProxyService, port: ProxyPort, family: Family, node: ProxyNode): Selection {
  const candidates = candidatesOf(service, port, family);
  const ready = candidates.filter(({ endpoint }) => endpoint.ready);
  const terminating = candidates.filter(({ endpoint }) => !endpoint.ready);
  const isHere = ({ endpoint }: Candidate): boolean => endpoint.node === node.name;
  return {
    cluster: firstNonEmpty(ready.filter(topologyOf(ready, node)), terminating),
    local: firstNonEmpty(ready.filter(isHere), terminating.filter(isHere)),
    serving: candidates,
  };
}

/** Addresses on this node with a ready endpoint of any of the service's ports: those that terminate do not count, so that a node drains. */
export function selectReadyHere(service: ProxyService, family: Family, { name }: ProxyNode): ReadonlySet<string> {
  const here = service.endpoints.filter(({ address, ready, node }) => ready && node === name && familyOf(address) === family);
  return new Set(here.map(({ address }) => address));
}

/** Each address and port once; a ready endpoint stands for its double that terminates. */
function candidatesOf(service: ProxyService, { name }: ProxyPort, family: Family): Candidate[] {
  const found = new Map<string, Candidate>();
  for (const endpoint of service.endpoints) {
    const port = Object.hasOwn(endpoint.ports, name) ? endpoint.ports[name] : undefined;
    if (port === undefined || familyOf(endpoint.address) !== family) continue;
    const text = addressPort(endpoint.address, port);
    if (found.get(text)?.endpoint.ready !== true && (endpoint.ready || !found.has(text))) {
      found.set(text, { address: endpoint.address, text, endpoint });
    }
  }
  return [...found.values()];
}

/**
 * Hints for this node hold only when every ready endpoint carries node hints and one names the node; else the same test on zones; else all may
 * be used. A service's `trafficDistribution` acts through these hints alone: the cluster's endpoint-slice controller derives them from it.
 */
function topologyOf(ready: readonly Candidate[], node: ProxyNode): (candidate: Candidate) => boolean {
  const named = (hints: 'hintNodes' | 'hintZones', value: string) => (candidate: Candidate) => candidate.endpoint[hints].includes(value);
  const holds = (hints: 'hintNodes' | 'hintZones', value: string): boolean =>
    ready.every(({ endpoint }) => endpoint[hints].length > 0) && ready.some(named(hints, value));
  if (holds('hintNodes', node.name)) return named('hintNodes', node.name);
  if (node.zone !== null && holds('hintZones', node.zone)) return named('hintZones', node.zone);
  return () => true;
}

function firstNonEmpty<T>(first: readonly T[], second: readonly T[]): readonly T[] {
  return first.length > 0 ? first : second;
}
