// Cluster state: the objects read, projected to the fields that we use. Everything in here is what the cluster says,
// typed but not judged: whether a host is a host is decided later. A field of the wrong type never gets here: its
// object is a rejection.

import type { Endpoints, Protocol } from '../../shared/endpoint.ts';
import type { Rejection } from '../../shared/rejection.ts';

export interface ObjectMeta {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** `creationTimestamp` in seconds since the epoch; 0 when absent (a manifest on disk). */
  readonly created: number;
  readonly generation: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface RouteTarget {
  readonly kind: string;
  readonly name: string;
  /** As written; null when absent (then 1). */
  readonly weight: number | null;
}

export interface RouteTls {
  readonly termination: string;
  readonly insecurePolicy: string | null;
  readonly certificate: string | null;
  /** PEM. Secret: never logged, never in a message. */
  readonly key: string | null;
  readonly caCertificate: string | null;
  readonly destinationCACertificate: string | null;
  /** Name of a `kubernetes.io/tls` Secret in the route's namespace. */
  readonly externalCertificate: string | null;
}

export interface HeaderAction {
  readonly direction: 'request' | 'response';
  readonly name: string;
  readonly action: { readonly type: 'Set'; readonly value: string } | { readonly type: 'Delete' } | { readonly type: string };
}

export interface Route {
  readonly meta: ObjectMeta;
  readonly host: string | null;
  readonly subdomain: string | null;
  readonly path: string | null;
  readonly wildcardPolicy: string | null;
  readonly to: RouteTarget;
  readonly alternateBackends: readonly RouteTarget[];
  readonly targetPort: string | number | null;
  readonly tls: RouteTls | null;
  readonly headerActions: readonly HeaderAction[];
}

export interface ServicePort {
  /** Empty for the single unnamed port. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  readonly targetPort: string | number | null;
  /** 0: none. */
  readonly nodePort: number;
  readonly appProtocol: string | null;
}

export interface LoadBalancerIngress {
  readonly ip: string | null;
  readonly hostname: string | null;
  /** `VIP` when absent. */
  readonly ipMode: string;
}

/** A Service's own fields; what is behind it is in `Endpoints`. */
export interface Service {
  readonly meta: ObjectMeta;
  readonly type: string;
  /** As written, `None` included; first the primary. Empty: none given. */
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  readonly loadBalancerIngress: readonly LoadBalancerIngress[];
  readonly loadBalancerSourceRanges: readonly string[];
  readonly externalTrafficPolicy: string;
  readonly internalTrafficPolicy: string;
  /** Read, not acted upon: the cluster turns it into hints on endpoints, and those count. */
  readonly trafficDistribution: string | null;
  /** 0: none. */
  readonly healthCheckNodePort: number;
  readonly sessionAffinity: string;
  /** Seconds; 10800 when absent. */
  readonly affinityTimeout: number;
  readonly publishNotReadyAddresses: boolean;
  readonly ports: readonly ServicePort[];
}

export interface NodeAddress {
  readonly type: string;
  readonly address: string;
}

export interface ClusterNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly addresses: readonly NodeAddress[];
  readonly podCIDRs: readonly string[];
}

export interface Namespace {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

export interface Secret {
  readonly namespace: string;
  readonly name: string;
  readonly type: string;
  /** Decoded. Secret: never logged, never in a message. */
  readonly data: ReadonlyMap<string, Uint8Array>;
}

/** One complete reading of the cluster. Lists are sorted by namespace and name, whatever the order they were listed in. */
export interface ClusterState {
  readonly routes: readonly Route[];
  readonly services: readonly Service[];
  readonly nodes: readonly ClusterNode[];
  readonly namespaces: readonly Namespace[];
  readonly secrets: readonly Secret[];
  readonly endpoints: Endpoints;
  /** Objects left out because a field has the wrong type, or that stand twice. */
  readonly rejections: readonly Rejection[];
}

/** Where cluster state comes from: a folder of manifests or an API server. */
export interface ClusterSource {
  /**
   * One complete reading, or an error: absence is believed only from a complete listing.
   * @throws HeadgateError stage `read-cluster` when anything cannot be listed or parsed (file and line are named)
   */
  read(signal?: AbortSignal): Promise<ClusterState>;
}
