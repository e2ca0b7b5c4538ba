// The iptables state of one node and one address family as values: chains and their rules. Its printed forms (a full
// load, a partial one) are made in restore-text.ts; how a node gets from one to another in sidecar/iptables/plan.ts.

import type { Family } from '../endpoint.ts';

export type Table = 'filter' | 'nat';
export const TABLES: readonly Table[] = ['filter', 'nat'];

/** A rule's arguments without `-A CHAIN`, exactly as printed: `-m comment --comment "ns/name:port" -j KUBE-SVC-...`. */
export type Rule = string;

/** A jump from a built-in chain into one of ours: the only kind of rule that we put there. Jumps stand at the head of their chain, in this order. */
export interface BuiltInJump {
  readonly chain: 'INPUT' | 'OUTPUT' | 'FORWARD' | 'PREROUTING' | 'POSTROUTING';
  readonly rule: Rule;
}

export interface TableState {
  /** Our chains by name in the order in which they are printed: a chain stands after no chain that it needs to be declared for. */
  readonly chains: ReadonlyMap<string, readonly Rule[]>;
  readonly jumps: readonly BuiltInJump[];
}

export interface Ruleset {
  readonly family: Family;
  readonly tables: Readonly<Record<Table, TableState>>;
}

/** What answers HTTP at a health-check node port. */
export interface HealthCheck {
  /** `0.0.0.0` or `::`: every address of the family. */
  readonly address: string;
  readonly port: number;
  /** The service's. */
  readonly namespace: string;
  readonly name: string;
  /** Ready endpoints on this node; with none the node is not to be sent traffic. */
  readonly localEndpoints: number;
}

/** What the service-proxy role sets on a node. */
export interface ProxyState {
  readonly rulesets: Readonly<Record<Family, Ruleset>>;
  /** Localhost node ports are on: the sidecar sets `net.ipv4.conf.all.route_localnet`. */
  readonly routeLocalnet: boolean;
  /** UDP service addresses and their serving endpoints, for conntrack clean-up: `172.30.0.10:53` -> [`10.1.0.1:53`]; `0.0.0.0:30053` for every address. */
  readonly udp: ReadonlyMap<string, readonly string[]>;
  /** One for each address and port. */
  readonly healthChecks: readonly HealthCheck[];
}
