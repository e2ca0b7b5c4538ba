// How traffic finds a service's port: the entries of the dispatch in nat, and the verdicts in filter on what has no
// endpoint to go to.

import type { Protocol } from '../endpoint.ts';
import { printRule, type RuleParts } from './rule.ts';
import type { Rule, Table } from './ruleset.ts';
import type { TrafficPolicy } from './service.ts';
import { balancing, type ServiceView } from './service-view.ts';

/** Which dispatch by address an entry belongs to. */
export type Dispatch = 'services' | 'externalServices' | 'firewall';

export interface AddressEntry {
  readonly table: Table;
  readonly dispatch: Dispatch;
  readonly address: string;
  readonly rule: Rule;
}

export interface NodePortEntry {
  readonly table: Table;
  readonly protocol: Protocol;
  readonly nodePort: number;
  readonly rule: Rule;
}

/** Entries for cluster IPs, external IPs and load-balancer IPs. */
export function addressEntries(view: ServiceView): AddressEntry[] {
  const internal = balancing(view, view.service.internalPolicy);
  const refusedInside = verdict(view, view.service.internalPolicy);
  const refusedOutside = verdict(view, view.service.externalPolicy);
  const entries = (table: Table, dispatch: Dispatch, addresses: readonly string[], what: string, jump: RuleParts['jump']): AddressEntry[] =>
    addresses.map((address) => ({ table, dispatch, address, rule: addressRule(view, address, what, jump) }));
  const loadBalancerChain = view.guarded ? view.chains.FW : view.chains.EXT;
  return [
    ...(refusedInside === null
      ? entries('nat', 'services', view.clusterIPs, 'cluster IP', [internal.chain])
      : entries('filter', 'services', view.clusterIPs, refusedInside.reason, refusedInside.jump)),
    ...(view.served ? entries('nat', 'services', view.externalIPs, 'external IP', [view.chains.EXT]) : []),
    ...(view.served ? entries('nat', 'services', view.loadBalancerIPs, 'load-balancer IP', [loadBalancerChain]) : []),
    ...(refusedOutside === null
      ? []
      : entries('filter', 'externalServices', [...view.externalIPs, ...view.loadBalancerIPs], refusedOutside.reason, refusedOutside.jump)),
    ...(view.guarded && view.served ? entries('filter', 'firewall', view.loadBalancerIPs, 'source not in the ranges', ['DROP']) : []),
  ];
}

/** Entries for the node port, if the service has one. */
export function nodePortEntries(view: ServiceView): NodePortEntry[] {
  const { nodePort, protocol } = view.port;
  if (nodePort === 0 || !view.external) return [];
  const entry = (table: Table, what: string, jump: RuleParts['jump']): NodePortEntry => ({
    table,
    protocol,
    nodePort,
    rule: printRule({ protocol, comment: `${view.key} ${what}`, port: nodePort, jump }),
  });
  const refused = verdict(view, view.service.externalPolicy);
  return [
    ...(view.served ? [entry('nat', 'node port', [view.chains.EXT])] : []),
    ...(refused === null ? [] : [entry('filter', refused.reason, refused.jump)]),
  ];
}

interface Verdict {
  readonly reason: string;
  readonly jump: RuleParts['jump'];
}

/** No endpoint anywhere: the client is told. Endpoints, but none here for a local policy: silence, so that the client tries another node. */
function verdict(view: ServiceView, policy: TrafficPolicy): Verdict | null {
  if (!view.served) {
    const how = view.situation.family === 'IPv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable';
    return { reason: 'has no endpoints', jump: ['REJECT', '--reject-with', how] };
  }
  return balancing(view, policy).targets.length === 0 ? { reason: 'has no local endpoints', jump: ['DROP'] } : null;
}

function addressRule(view: ServiceView, destination: string, what: string, jump: RuleParts['jump']): Rule {
  const { protocol, port } = view.port;
  return printRule({ destination, protocol, comment: `${view.key} ${what}`, port, jump });
}
