// Who may be served at an address and port: one service, on every node alike. Cluster IPs come before addresses that
// anybody can write into an object; among the latter, the older service has it.

import type { ProxyPort } from '../../shared/iptables/service.ts';
import { compareText } from '../../shared/json.ts';
import type { Rejection } from '../../shared/rejection.ts';
import type { ServicePort } from '../cluster/objects.ts';
import type { AdmittedService } from './configuration.ts';
import { serviceReport } from './report.ts';
import { ADDRESS_FIELDS, type AddressKind } from './service-addresses.ts';

/** A service that has been read, before it is settled which of its addresses it gets. */
export interface Claimant {
  /** Seconds since the epoch. */
  readonly created: number;
  readonly service: Omit<AdmittedService, 'ports'>;
  readonly ports: readonly ServicePort[];
  readonly addresses: Readonly<Record<AddressKind, readonly string[]>>;
}

/** Kinds of addresses that are settled together. A load-balancer IP that is an external IP too keeps its source ranges. */
const ROUNDS: readonly (readonly AddressKind[])[] = [['clusterIPs'], ['loadBalancerIPs', 'externalIPs']];

/** Services with the addresses and node ports that they get; what goes to another service is added to the rejections. */
export function settleClaims(claimants: readonly Claimant[], rejections: Rejection[]): AdmittedService[] {
  const byAge = [...claimants].sort((a, b) => a.created - b.created || compareText(nameOf(a), nameOf(b)));
  const claims: Claims = new Map();
  for (const kinds of ROUNDS) {
    for (const claimant of byAge) for (const kind of kinds) claimAddresses(claims, claimant, kind, rejections);
  }
  for (const claimant of byAge) claimNodePorts(claims, claimant, rejections);
  return byAge.map((claimant) => ({ ...claimant.service, ports: claimant.ports.map((port) => settledPort(claims, claimant, port)) }));
}

interface Owner {
  readonly claimant: Claimant;
  readonly port: string;
  /** The kind of address that it was first claimed as. */
  readonly kind: AddressKind | 'nodePort';
}

/** What is taken so far: `address protocol port` -> owner. */
type Claims = Map<string, Owner>;

/** The owner after this claim: an earlier one, or the claimant. */
function claim(claims: Claims, place: string, owner: Owner): Owner {
  const earlier = claims.get(place);
  if (earlier !== undefined) return earlier;
  claims.set(place, owner);
  return owner;
}

function isHeld(claims: Claims, place: string, { claimant, port, kind }: Owner): boolean {
  const owner = claims.get(place);
  return owner?.claimant === claimant && owner.port === port && owner.kind === kind;
}

function claimAddresses(claims: Claims, claimant: Claimant, kind: AddressKind, rejections: Rejection[]): void {
  const report = serviceReport(claimant.service, rejections);
  for (const address of claimant.addresses[kind]) {
    const lost = new Map<string, string[]>();
    for (const port of claimant.ports) {
      const owner = claim(claims, placeOf(address, port), { claimant, port: port.name, kind });
      if (owner.claimant === claimant && owner.port === port.name) continue;
      lost.set(nameOf(owner.claimant), [...(lost.get(nameOf(owner.claimant)) ?? []), `${port.port}/${port.protocol}`]);
    }
    for (const [owner, ports] of lost) {
      report(ADDRESS_FIELDS[kind], 'AddressAlreadyClaimed', `${address} is held by ${owner} at ${ports.join(', ')}`);
    }
  }
}

function claimNodePorts(claims: Claims, claimant: Claimant, rejections: Rejection[]): void {
  for (const port of claimant.ports) {
    if (port.nodePort === 0) continue;
    const owner = claim(claims, nodePlaceOf(port), { claimant, port: port.name, kind: 'nodePort' });
    if (owner.claimant === claimant && owner.port === port.name) continue;
    const message = `the node port ${port.nodePort}/${port.protocol} is held by ${nameOf(owner.claimant)}`;
    serviceReport(claimant.service, rejections)('spec.ports', 'NodePortAlreadyClaimed', message);
  }
}

function settledPort(claims: Claims, claimant: Claimant, port: ServicePort): ProxyPort {
  const held = (kind: AddressKind): string[] =>
    claimant.addresses[kind].filter((address) => isHeld(claims, placeOf(address, port), { claimant, port: port.name, kind }));
  const hasNodePort = port.nodePort !== 0 && isHeld(claims, nodePlaceOf(port), { claimant, port: port.name, kind: 'nodePort' });
  return {
    name: port.name,
    protocol: port.protocol,
    port: port.port,
    nodePort: hasNodePort ? port.nodePort : 0,
    clusterIPs: held('clusterIPs'),
    externalIPs: held('externalIPs'),
    loadBalancerIPs: held('loadBalancerIPs'),
  };
}

function placeOf(address: string, port: ServicePort): string {
  return `${address} ${port.protocol} ${port.port}`;
}

function nodePlaceOf(port: ServicePort): string {
  return `node ${port.protocol} ${port.nodePort}`;
}

function nameOf({ service }: Claimant): string {
  return `${service.namespace}/${service.name}`;
}
