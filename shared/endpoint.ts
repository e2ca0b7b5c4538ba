// What is behind a service now: EndpointSlices (or Endpoints), projected, merged per service. Both roles read it.

export type Family = 'IPv4' | 'IPv6';
export const FAMILIES: readonly Family[] = ['IPv4', 'IPv6'];
export type Protocol = 'TCP' | 'UDP' | 'SCTP';

export interface Endpoint {
  /** Canonical text of the address (RFC 5952 for IPv6). */
  readonly address: string;
  /** A nil `conditions.ready` means true; so does a nil `serving`. */
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly node: string | null;
  readonly zone: string | null;
  readonly hintZones: readonly string[];
  readonly hintNodes: readonly string[];
  /** The pod behind it (`targetRef.name`), when there is one. */
  readonly pod: string | null;
}

export interface EndpointPort {
  /** Empty for the single unnamed port. */
  readonly name: string;
  readonly port: number;
  readonly protocol: Protocol;
  readonly appProtocol: string | null;
}

/** Endpoints that share ports: one EndpointSlice. */
export interface EndpointSubset {
  readonly family: Family;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: readonly Endpoint[];
}

export interface ServiceEndpoints {
  readonly namespace: string;
  readonly name: string;
  /** In canonical order, equal subsets once: independent of the slices' names and order. */
  readonly subsets: readonly EndpointSubset[];
}

/** Keyed by `namespace/name` of the service. */
export type Endpoints = ReadonlyMap<string, ServiceEndpoints>;
