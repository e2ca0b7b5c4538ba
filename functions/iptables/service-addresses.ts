// The addresses of a service: cluster IPs, external IPs, load-balancer IPs and the source ranges allowed to the last. Read
// from text that may be anything, written canonically, or left out one by one.

import { type Address, parseAddress, parseCidr, specialUse } from '../../shared/address.ts';
import { FAMILIES, type Family } from '../../shared/endpoint.ts';
import { compareText } from '../../shared/json.ts';
import type { Service } from '../cluster/objects.ts';
import { quoted, type Report } from './report.ts';

/** Kinds of addresses by the names of their lists, each with the field that it is read from. */
export const ADDRESS_FIELDS = {
  clusterIPs: 'spec.clusterIPs',
  externalIPs: 'spec.externalIPs',
  loadBalancerIPs: 'status.loadBalancer',
} as const;
export type AddressKind = keyof typeof ADDRESS_FIELDS;

export interface ServiceAddresses {
  readonly families: readonly Family[];
  /** Canonical, sorted, each once. */
  readonly addresses: Readonly<Record<AddressKind, readonly string[]>>;
  /** null: none given. Otherwise those that are good: perhaps none, which allows nobody. */
  readonly sourceRanges: readonly string[] | null;
}

/**
 * Reads a service's addresses. Its families are those of its good cluster IPs, and an address of another one is left out; without a
 * good cluster IP nothing is known of them, and both will do.
 */
export function readAddresses(service: Service, report: Report): ServiceAddresses {
  const clusterIPs = service.clusterIPs.flatMap((text) => readAddress(text, 'spec.clusterIPs', report));
  const known = [...new Set(clusterIPs.map(({ family }) => family))].sort(compareText);
  const families: readonly Family[] = known.length === 0 ? FAMILIES : known;
  const ofFamilies = (field: string, texts: readonly string[]): string[] =>
    canonical(
      texts.flatMap((text) => readAddress(text, field, report)).filter((address) => isOfFamilies(address, families, field, report)),
    );
  const virtual = service.loadBalancerIngress.flatMap(({ ip, ipMode }) => (ip !== null && ip !== '' && ipMode === 'VIP' ? [ip] : []));
  return {
    families,
    addresses: {
      clusterIPs: canonical(clusterIPs),
      externalIPs: ofFamilies(ADDRESS_FIELDS.externalIPs, service.externalIPs),
      loadBalancerIPs: ofFamilies(ADDRESS_FIELDS.loadBalancerIPs, virtual),
    },
    sourceRanges: service.loadBalancerSourceRanges.length === 0 ? null : readRanges(service.loadBalancerSourceRanges, families, report),
  };
}

function readAddress(text: string, field: string, report: Report): Address[] {
  const address = parseAddress(text.trim());
  const use = address === null ? null : specialUse(address);
  if (address !== null && use === null) return [address];
  report(field, 'InvalidAddress', `${quoted(text)} is ${use === null ? 'no address' : `an address that no service has: ${use}`}`);
  return [];
}

function readRanges(texts: readonly string[], families: readonly Family[], report: Report): string[] {
  const field = 'spec.loadBalancerSourceRanges';
  const ranges = texts.flatMap((text) => {
    const range = parseCidr(text.trim());
    if (range === null) report(field, 'InvalidCIDR', `${quoted(text)} is no CIDR such as 10.0.0.0/8`);
    return range === null ? [] : [range];
  });
  return canonical(ranges.filter((range) => isOfFamilies(range, families, field, report)));
}

function isOfFamilies(given: Pick<Address, 'family' | 'text'>, families: readonly Family[], field: string, report: Report): boolean {
  if (families.includes(given.family)) return true;
  report(field, 'WrongFamily', `${given.text} is ${given.family}, and the service has no such cluster IP`);
  return false;
}

function canonical(items: readonly { readonly text: string }[]): string[] {
  return [...new Set(items.map(({ text }) => text))].sort(compareText);
}
