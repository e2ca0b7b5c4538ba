// One port of a service as one node sees it, for one family: what both its chains and the entries that lead to them are
// made from.

import type { Family } from '../endpoint.ts';
import { familyOf } from './addresses.ts';
import { endpointChain, portKey, serviceChain, serviceHash } from './chain-names.ts';
import { selectEndpoints, type Selection, type Target } from './select.ts';
import type { ProxyNode, ProxyOptions, ProxyPort, ProxyService, TrafficPolicy } from './service.ts';

/** What holds for all services of a node and a family. */
export interface Situation {
  readonly family: Family;
  readonly node: ProxyNode;
  readonly options: ProxyOptions;
  /** Of this family; empty: unknown. */
  readonly podCidrs: readonly string[];
}

export interface ServiceView {
  readonly situation: Situation;
  readonly service: ProxyService;
  readonly port: ProxyPort;
  /** `namespace/name:port`. */
  readonly key: string;
  readonly selection: Selection;
  /** Some endpoint serves, here or elsewhere. */
  readonly served: boolean;
  /** Addresses of this family. */
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
  /** There is an address or a node port for traffic from outside. */
  readonly external: boolean;
  /** Source ranges guard the load-balancer IPs. */
  readonly guarded: boolean;
  readonly chains: { readonly [kind in 'SVC' | 'SVL' | 'EXT' | 'FW']: string };
}

export function viewService(service: ProxyService, port: ProxyPort, situation: Situation): ServiceView {
  const ofFamily = (addresses: readonly string[]): string[] => addresses.filter((address) => familyOf(address) === situation.family);
  const key = portKey(service.namespace, service.name, port.name);
  const hash = serviceHash(key, port.protocol);
  const selection = selectEndpoints(service, port, situation.family, situation.node);
  const externalIPs = ofFamily(port.externalIPs);
  const loadBalancerIPs = ofFamily(port.loadBalancerIPs);
  return {
    situation,
    service,
    port,
    key,
    selection,
    served: selection.cluster.length > 0,
    clusterIPs: ofFamily(port.clusterIPs),
    externalIPs,
    loadBalancerIPs,
    external: externalIPs.length + loadBalancerIPs.length > 0 || (port.nodePort !== 0 && service.families.includes(situation.family)),
    guarded: service.sourceRanges !== null && loadBalancerIPs.length > 0,
    chains: {
      SVC: serviceChain('SVC', hash),
      SVL: serviceChain('SVL', hash),
      EXT: serviceChain('EXT', hash),
      FW: serviceChain('FW', hash),
    },
  };
}

/** The chain that traffic under a policy is balanced in, and what it reaches: nothing, when the policy is local and no endpoint is here. */
export function balancing(view: ServiceView, policy: TrafficPolicy): { readonly chain: string; readonly targets: readonly Target[] } {
  return policy === 'Local'
    ? { chain: view.chains.SVL, targets: view.selection.local }
    : { chain: view.chains.SVC, targets: view.selection.cluster };
}

export function targetChain(view: ServiceView, target: Target): string {
  return endpointChain(view.key, view.port.protocol, target.text);
}
