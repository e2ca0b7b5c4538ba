// What a version stores for the service proxy (`iptables/...`): services with their endpoints, nodes, options. The same
// for every node: what is particular to one is selected when its rules are composed. All of it is plain JSON.

import type { Family, Protocol } from '../endpoint.ts';

/** One port of a service, with the addresses at which it is served: those that no older service holds. */
export interface ProxyPort {
  /** Empty for the single unnamed port. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0: none. */
  readonly nodePort: number;
  /** Canonical, IPv4 and IPv6 together, sorted. Likewise below. */
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  /** Those with ipMode VIP. */
  readonly loadBalancerIPs: readonly string[];
}

/** A place where a service is served from: ready, or serving while it terminates. Others are not stored. */
export interface ProxyEndpoint {
  readonly address: string;
  /** Target port by the name of the service's port. */
  readonly ports: Readonly<Record<string, number>>;
  /** False: serves while it terminates, used only when none is ready. */
  readonly ready: boolean;
  readonly node: string | null;
  readonly hintZones: readonly string[];
  readonly hintNodes: readonly string[];
}

export interface ProxyService {
  readonly namespace: string;
  readonly name: string;
  /** Those of its cluster IPs. */
  readonly families: readonly Family[];
  readonly ports: readonly ProxyPort[];
  readonly internalPolicy: TrafficPolicy;
  readonly externalPolicy: TrafficPolicy;
  /** Seconds for which a client keeps its endpoint; null: no affinity. */
  readonly affinitySeconds: number | null;
  /** Canonical CIDRs that may use the load-balancer IPs; null: everybody; none of a family: nobody of that family. */
  readonly sourceRanges: readonly string[] | null;
  /** 0: none. */
  readonly healthCheckNodePort: number;
  readonly endpoints: readonly ProxyEndpoint[];
}

/** `Local`: only endpoints on the node that the traffic came to. */
export type TrafficPolicy = 'Cluster' | 'Local';

export interface ProxyNode {
  readonly name: string;
  /** Canonical `InternalIP`s and `ExternalIP`s. */
  readonly internalIPs: readonly string[];
  readonly externalIPs: readonly string[];
  /** `topology.kubernetes.io/zone`. */
  readonly zone: string | null;
}

export interface ProxyOptions {
  /** Canonical CIDRs of the pods, as few as cover them exactly; none of a family: unknown. */
  readonly clusterCIDRs: readonly string[];
  readonly masqueradeAll: boolean;
  /** Canonical CIDRs; null: every local address. */
  readonly nodePortAddresses: readonly string[] | null;
  readonly localhostNodePorts: boolean;
  /** True in large clusters: comments, two fifths of the bytes, stay on dispatch rules only. */
  readonly sparseComments: boolean;
}

/** Where each part is stored. `services` and `nodes` are folders of shards, keyed by `namespace/name` and by name. */
export const PROXY_PATHS = { options: 'iptables/options', services: 'iptables/services', nodes: 'iptables/nodes' } as const;
