// IP addresses and CIDRs: read from text that nobody has checked, written in one canonical form. An IPv4 part with
// leading zeros is decimal (`172.30.0.041` is 172.30.0.41), as the field reads it. White space is the caller's to trim.

import type { Family } from './endpoint.ts';

export interface Address {
  readonly family: Family;
  /** Canonical: no leading zeros, RFC 5952 for IPv6 (`::ffff:10.0.0.1` for an IPv4-mapped one, which stays IPv6). */
  readonly text: string;
}

export interface Cidr {
  readonly family: Family;
  /** Canonical network, always with its length: `10.0.0.0/8`, `10.1.2.3/32`. */
  readonly text: string;
  /** The network's address without the length. */
  readonly address: string;
  /** 0..32 or 0..128. */
  readonly prefix: number;
}

/** What kind of address no pod can have, though an endpoint may claim it. */
export type SpecialUse = 'unspecified' | 'loopback' | 'link-local' | 'multicast' | 'broadcast' | 'cloud-metadata';

/** An address as 16-bit words: two for IPv4, eight for IPv6. */
type Words = readonly number[];

/** The longest text of an address that is worth reading; canonical ones have at most 45 characters. */
const LONGEST = 64;

/** Reads an address without a zone, a port or brackets; null when the text is none. */
export function parseAddress(text: string): Address | null {
  const words = readWords(text);
  return words === null ? null : { family: familyOf(words), text: writeWords(words) };
}

/** Reads `address/length`, bits beyond the length cleared; null when the text is none. A bare address is no CIDR. */
export function parseCidr(text: string): Cidr | null {
  const slash = text.indexOf('/');
  if (slash === -1) return null;
  const words = readWords(text.slice(0, slash));
  const length = text.slice(slash + 1);
  if (words === null || !/^\d{1,3}$/.test(length)) return null;
  const prefix = Number(length);
  if (prefix > words.length * 16) return null;
  return cidrOf(masked(words, prefix), prefix);
}

/** The CIDR that holds this address only. */
export function hostCidr(address: Address): Cidr {
  const prefix = address.family === 'IPv4' ? 32 : 128;
  return { family: address.family, text: `${address.text}/${prefix}`, address: address.text, prefix };
}

/** Whether the network holds the address. Families never mix, IPv4-mapped addresses included. */
export function cidrContains(cidr: Cidr, address: Address): boolean {
  if (cidr.family !== address.family) return false;
  const words = readWords(address.text);
  return words !== null && writeWords(masked(words, cidr.prefix)) === cidr.address;
}

/** What an address is reserved for; null for an ordinary one. An IPv6 address that embeds an IPv4 one is judged as that one. */
export function specialUse(address: Address): SpecialUse | null {
  if (METADATA.has(address.text)) return 'cloud-metadata';
  const words = readWords(address.text);
  if (words === null) return null;
  if (words.length === 2) return specialUseOfIPv4(words);
  return specialUseOfIPv6(words);
}

/** Metadata services of the clouds: AWS and most others, AWS and Google over IPv6, Azure's wire server, Alibaba. */
const METADATA: ReadonlySet<string> = new Set(['169.254.169.254', 'fd00:ec2::254', 'fd20:ce::254', '168.63.129.16', '100.100.100.200']);

function specialUseOfIPv4(words: Words): SpecialUse | null {
  const text = writeWords(words);
  if (METADATA.has(text)) return 'cloud-metadata';
  if (text === '0.0.0.0') return 'unspecified';
  if (text === '255.255.255.255') return 'broadcast';
  const [high = 0] = words;
  if (high >> 8 === 127) return 'loopback';
  if (high === 0xa9fe) return 'link-local';
  return high >> 12 === 0xe ? 'multicast' : null;
}

function specialUseOfIPv6(words: Words): SpecialUse | null {
  const text = writeWords(words);
  if (text === '::') return 'unspecified';
  if (text === '::1') return 'loopback';
  const [high = 0] = words;
  if (high >> 6 === 0xfe80 >> 6) return 'link-local';
  if (high >> 8 === 0xff) return 'multicast';
  return EMBEDDING.has(writeWords([...words.slice(0, 6), 0, 0])) ? specialUseOfIPv4(words.slice(6)) : null;
}

/** Prefixes of 96 bits whose last 32 are an IPv4 address: mapped, compatible (deprecated), NAT64's well-known one (RFC 6052). */
const EMBEDDING: ReadonlySet<string> = new Set(['::ffff:0.0.0.0', '::', '64:ff9b::']);

function cidrOf(words: Words, prefix: number): Cidr {
  const address = writeWords(words);
  return { family: familyOf(words), text: `${address}/${prefix}`, address, prefix };
}

function familyOf(words: Words): Family {
  return words.length === 2 ? 'IPv4' : 'IPv6';
}

function masked(words: Words, prefix: number): Words {
  return words.map((word, index) => {
    const kept = Math.min(Math.max(prefix - 16 * index, 0), 16);
    return word & (0xffff << (16 - kept));
  });
}

function readWords(text: string): Words | null {
  if (text.length > LONGEST) return null;
  return text.includes(':') ? readIPv6(text) : readIPv4(text);
}

function readIPv4(text: string): Words | null {
  let value = 0;
  let part = -1;
  let parts = 0;
  for (let at = 0; at <= text.length; at++) {
    const code = at === text.length ? DOT : text.charCodeAt(at);
    if (code === DOT) {
      if (part === -1) return null;
      value = value * 256 + part;
      part = -1;
      parts++;
    } else {
      if (code < ZERO || code > ZERO + 9) return null;
      part = Math.max(part, 0) * 10 + code - ZERO;
      if (part > 255) return null;
    }
  }
  return parts === 4 ? [value >>> 16, value & 0xffff] : null;
}

const DOT = 46;
const ZERO = 48;

function readIPv6(text: string): Words | null {
  const gap = text.indexOf('::');
  if (gap === -1) {
    const words = readGroups(text);
    return words?.length === 8 ? words : null;
  }
  const left = gap === 0 ? [] : readGroups(text.slice(0, gap));
  const right = gap + 2 === text.length ? [] : readGroups(text.slice(gap + 2));
  // An embedded IPv4 address is the end of the text: before the gap it would not be.
  if (left === null || right === null || text.slice(0, gap).includes('.')) return null;
  const zeros = 8 - left.length - right.length;
  return zeros < 1 ? null : [...left, ...Array.from({ length: zeros }, () => 0), ...right];
}

function readGroups(text: string): Words | null {
  const groups = text.split(':');
  const words: number[] = [];
  for (const [index, group] of groups.entries()) {
    if (/^[0-9a-fA-F]{1,4}$/.test(group)) {
      words.push(Number.parseInt(group, 16));
      continue;
    }
    const embedded = index === groups.length - 1 ? readIPv4(group) : null;
    if (embedded === null) return null;
    words.push(...embedded);
  }
  return words;
}

function writeWords(words: Words): string {
  if (words.length === 2) return writeIPv4(words);
  if (words[5] === 0xffff && words.slice(0, 5).every((word) => word === 0)) return `::ffff:${writeIPv4(words.slice(6))}`;
  const { from, length } = longestZeroRun(words);
  if (length < 2) return writeGroups(words);
  return `${writeGroups(words.slice(0, from))}::${writeGroups(words.slice(from + length))}`;
}

function writeIPv4([high = 0, low = 0]: Words): string {
  return `${high >> 8}.${high & 0xff}.${low >> 8}.${low & 0xff}`;
}

function writeGroups(words: Words): string {
  return words.map((word) => word.toString(16)).join(':');
}

/** The first of the longest runs of zero words: what `::` stands for. */
function longestZeroRun(words: Words): { readonly from: number; readonly length: number } {
  let best = { from: 0, length: 0 };
  let length = 0;
  for (const [index, word] of words.entries()) {
    length = word === 0 ? length + 1 : 0;
    if (length > best.length) best = { from: index - length + 1, length };
  }
  return best;
}
