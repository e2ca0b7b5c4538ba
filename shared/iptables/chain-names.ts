// Names of our chains. Those of services are the field's: a prefix and 16 characters of a hash, so that tools and people
// who know kube-proxy's chains know ours. A chain's name has at most 28 characters.

import { createHash } from 'node:crypto';
import type { Protocol } from '../endpoint.ts';

/** `SVC`: all endpoints, `SVL`: this node's, `EXT`: traffic from outside, `FW`: source ranges. */
export type ServiceChain = 'SVC' | 'SVL' | 'EXT' | 'FW';

/** `namespace/name:port`, or `namespace/name` for an unnamed port: how rules and people name a service's port. */
export function portKey(namespace: string, name: string, port: string): string {
  return port === '' ? `${namespace}/${name}` : `${namespace}/${name}:${port}`;
}

/** The part of a service port's chain names that follows the prefix. */
export function serviceHash(key: string, protocol: Protocol): string {
  return hashOf(key + protocol.toLowerCase());
}

export function serviceChain(kind: ServiceChain, hash: string): string {
  return `KUBE-${kind}-${hash}`;
}

/** The chain of one endpoint of a service port. `target` is `address:port`, IPv6 in brackets. */
export function endpointChain(key: string, protocol: Protocol, target: string): string {
  return `KUBE-SEP-${hashOf(key + protocol.toLowerCase() + target)}`;
}

/** Chains of every node, whatever its services. */
export const CHAINS = {
  services: 'KUBE-SERVICES',
  externalServices: 'KUBE-EXTERNAL-SERVICES',
  nodePorts: 'KUBE-NODEPORTS',
  /** filter: what node ports without endpoints answer. */
  nodePortVerdicts: 'KUBE-NODEPORT-VERDICTS',
  firewall: 'KUBE-PROXY-FIREWALL',
  forward: 'KUBE-FORWARD',
  postrouting: 'KUBE-POSTROUTING',
  markMasquerade: 'KUBE-MARK-MASQ',
  /** nat: marks what does not come from a pod. */
  markOutside: 'KUBE-MARK-OUTSIDE',
} as const;

/** Sub-chains of a dispatch by the last byte of an address, in two hex digits. */
export const DISPATCH_PREFIXES = { services: 'KUBE-DISP-', externalServices: 'KUBE-DISP-EXT-', firewall: 'KUBE-DISP-FW-' } as const;

/** Sub-chains of a dispatch by blocks of node ports: `KUBE-NP-UDP-30080`. */
export function nodePortChain(protocol: Protocol, firstPort: number): string {
  return `KUBE-NP-${protocol}-${firstPort}`;
}

/** Those that kube-proxy has no chain of the same name for. */
const PARTICULAR = [CHAINS.nodePortVerdicts, CHAINS.markOutside, 'KUBE-DISP-(EXT-|FW-)?[0-9a-f]{2}', 'KUBE-NP-(TCP|UDP|SCTP)-\\d{1,5}'];
const OWNED = anyOf([...Object.values(CHAINS), 'KUBE-(SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}', ...PARTICULAR]);
const OURS_ALONE = anyOf(PARTICULAR);

function anyOf(patterns: readonly string[]): RegExp {
  return new RegExp(`^(${patterns.join('|')})$`);
}

/** True for every chain that some release of ours writes, in either table. Others' `KUBE-` chains (the kubelet's) are not. */
export function isOwnChain(name: string): boolean {
  return OWNED.test(name);
}

/** True for those of them that kube-proxy never writes. */
export function isOursAlone(name: string): boolean {
  return OURS_ALONE.test(name);
}

function hashOf(text: string): string {
  return base32(createHash('sha256').update(text).digest().subarray(0, 10));
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** RFC 4648 without padding: ten bytes give sixteen characters. */
function base32(bytes: Uint8Array): string {
  let text = '';
  let held = 0;
  let bits = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) text += BASE32.charAt((held >> (bits - 5)) & 31);
    held &= (1 << bits) - 1;
  }
  return text;
}
