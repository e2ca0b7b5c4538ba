// Addresses and CIDRs in the canonical text that versions hold: what rules need to know of them.

import { cidrContains, parseAddress, parseCidr } from '../address.ts';
import type { Family } from '../endpoint.ts';

/** The family of an address or a CIDR. */
export function familyOf(text: string): Family {
  return text.includes(':') ? 'IPv6' : 'IPv4';
}

/** As it is printed with a port: `10.0.0.1:80`, `[fd00::1]:80`. */
export function addressPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

/** Whether the CIDR holds the address. */
export function holds(range: string, text: string): boolean {
  const cidr = parseCidr(range);
  const address = parseAddress(text);
  return cidr !== null && address !== null && cidrContains(cidr, address);
}

/** The address's last byte, 0..255. */
export function lastByte(address: string): number {
  const group = address.slice(address.lastIndexOf(':') + 1);
  if (group.includes('.')) return Number(group.slice(group.lastIndexOf('.') + 1));
  return Number.parseInt(group === '' ? '0' : group, 16) & 0xff;
}
