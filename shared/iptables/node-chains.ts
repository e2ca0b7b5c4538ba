// The chains that every node has, whatever its services, and the jumps into them. Names, order and comments of the jumps
// are kube-proxy's, so that one may follow the other on a node.

import { familyOf, holds } from './addresses.ts';
import { CHAINS } from './chain-names.ts';
import { printRule, type RuleParts } from './rule.ts';
import type { BuiltInJump, Rule, Table } from './ruleset.ts';
import type { Situation } from './service-view.ts';

/** What a node's kernel and tools can do. */
export interface NodeKernel {
  /** `net.netfilter.nf_conntrack_tcp_be_liberal`: packets that conntrack calls invalid are let through. */
  readonly conntrackLiberal: boolean;
  /** `MASQUERADE --random-fully` is known. */
  readonly randomFully: boolean;
}

/** Marks packets to be masqueraded; the kubelet's default bit. */
const MARK = '0x4000';

const NEW = ['-m', 'conntrack', '--ctstate', 'NEW'];

/** Jumps of filter and nat, in the order in which they stand at the head of each built-in chain. */
export const JUMPS: Readonly<Record<Table, readonly BuiltInJump[]>> = {
  filter: [
    jump('INPUT', CHAINS.firewall, 'kubernetes load balancer firewall', NEW),
    jump('INPUT', CHAINS.nodePorts, 'kubernetes health check service ports'),
    jump('INPUT', CHAINS.externalServices, 'kubernetes externally-visible service portals', NEW),
    jump('FORWARD', CHAINS.firewall, 'kubernetes load balancer firewall', NEW),
    jump('FORWARD', CHAINS.forward, 'kubernetes forwarding rules'),
    jump('FORWARD', CHAINS.services, 'kubernetes service portals', NEW),
    jump('FORWARD', CHAINS.externalServices, 'kubernetes externally-visible service portals', NEW),
    jump('OUTPUT', CHAINS.firewall, 'kubernetes load balancer firewall', NEW),
    jump('OUTPUT', CHAINS.services, 'kubernetes service portals', NEW),
  ],
  nat: [
    jump('PREROUTING', CHAINS.services, 'kubernetes service portals'),
    jump('OUTPUT', CHAINS.services, 'kubernetes service portals'),
    jump('POSTROUTING', CHAINS.postrouting, 'kubernetes postrouting rules'),
  ],
};

function jump(from: BuiltInJump['chain'], to: string, comment: string, match: readonly string[] = []): BuiltInJump {
  return {
    chain: from,
    rule: printRule({ matches: [...(match.length === 0 ? [] : [match]), ['-m', 'comment', '--comment', comment]], jump: [to] }),
  };
}

export function postroutingRules({ randomFully }: NodeKernel): Rule[] {
  return [
    printRule({ matches: [['-m', 'mark', '!', '--mark', `${MARK}/${MARK}`]], jump: ['RETURN'] }),
    // Cleared, so that the packet is not masqueraded again when it comes through another time.
    printRule({ jump: ['MARK', '--set-xmark', `${MARK}/0x0`] }),
    printRule({ comment: 'kubernetes service traffic requiring SNAT', jump: ['MASQUERADE', ...(randomFully ? ['--random-fully'] : [])] }),
  ];
}

export function markMasqueradeRules(): Rule[] {
  return [printRule({ jump: ['MARK', '--set-xmark', `${MARK}/${MARK}`] })];
}

/** A chain of its own, so that nodes that join the cluster change this chain and none of a service. */
export function markOutsideRules(podCidrs: readonly string[]): Rule[] {
  return [...podCidrs.map((source) => printRule({ source, jump: ['RETURN'] })), printRule({ jump: [CHAINS.markMasquerade] })];
}

export function forwardRules({ conntrackLiberal }: NodeKernel): Rule[] {
  const comment = 'kubernetes forwarding rules';
  const inState = (states: string): string[][] => [['-m', 'conntrack', '--ctstate', states]];
  return [
    ...(conntrackLiberal ? [] : [printRule({ matches: inState('INVALID'), jump: ['DROP'] })]),
    printRule({ comment, matches: [['-m', 'mark', '--mark', `${MARK}/${MARK}`]], jump: ['ACCEPT'] }),
    printRule({ comment, matches: inState('RELATED,ESTABLISHED'), jump: ['ACCEPT'] }),
  ];
}

const LOCALNET = '127.0.0.0/8';

/** With `route_localnet` the kernel takes packets to 127/8 from anywhere: those that are not of this node are dropped. */
export function localnetGuard({ family, options }: Situation): Rule[] {
  if (family === 'IPv6' || !options.localhostNodePorts) return [];
  const comment = 'block incoming localnet connections';
  const matches = [['-m', 'conntrack', '!', '--ctstate', 'RELATED,ESTABLISHED,DNAT']];
  return [printRule({ notSource: LOCALNET, destination: LOCALNET, comment, matches, jump: ['DROP'] })];
}

/** Likewise in nat, before the node ports: with a new destination those packets would get past that guard. */
export function localnetGate({ family, options }: Situation): Rule[] {
  if (family === 'IPv6' || !options.localhostNodePorts) return [];
  const comment = 'localhost node ports are for this node only';
  const matches = [['-m', 'addrtype', '!', '--src-type', 'LOCAL']];
  return [printRule({ destination: LOCALNET, comment, matches, jump: ['RETURN'] })];
}

/** Rules that send what comes to an address with node ports to this chain. */
export function nodePortGates(situation: Situation, chain: string): Rule[] {
  const comment = 'kubernetes node ports; these must be the last rules of this chain';
  return nodePortDestinations(situation).map((destination) => printRule({ ...destination, comment, jump: [chain] }));
}

/** Every local address, or those that the options allow. Never ::1, which cannot work; 127/8 only when it was asked for. */
function nodePortDestinations(situation: Situation): Pick<RuleParts, 'destination' | 'notDestination' | 'matches'>[] {
  const { family, options } = situation;
  const allowed = allowedRanges(situation);
  const withLocalhost = family === 'IPv4' && options.localhostNodePorts;
  if (allowed === null) {
    const local = { matches: [['-m', 'addrtype', '--dst-type', 'LOCAL']] };
    return [withLocalhost ? local : { notDestination: family === 'IPv4' ? LOCALNET : '::1', ...local }];
  }
  const localhost = withLocalhost ? allowed.flatMap(localhostPart) : [];
  return [...new Set([...nodeAddressesWithPorts(situation), ...localhost])].map((destination) => ({ destination }));
}

/** Where a port of the node is listened at: every address (`0.0.0.0`, `::`), or those at which its node ports are allowed. */
export function listeningAddresses(situation: Situation): string[] {
  const [every, loopback] = situation.family === 'IPv4' ? ['0.0.0.0', '127.0.0.1'] : ['::', '::1'];
  const allowed = allowedRanges(situation);
  if (allowed === null) return [every];
  return [...nodeAddressesWithPorts(situation), ...(allowed.some((range) => holds(range, loopback)) ? [loopback] : [])];
}

/** The node's own addresses, as the cluster knows them, that node ports are served at. */
function nodeAddressesWithPorts(situation: Situation): string[] {
  const { family, node } = situation;
  const allowed = allowedRanges(situation);
  const addresses = [...new Set([...node.internalIPs, ...node.externalIPs])].filter((address) => familyOf(address) === family);
  return allowed === null ? addresses : addresses.filter((address) => allowed.some((range) => holds(range, address)));
}

/** Where node ports are allowed; null: at every address. */
function allowedRanges({ family, options }: Situation): string[] | null {
  const ranges = options.nodePortAddresses?.filter((range) => familyOf(range) === family) ?? null;
  return ranges === null || ranges.some((range) => range.endsWith('/0')) ? null : ranges;
}

/** What a range and 127/8 have in common. */
function localhostPart(range: string): string[] {
  if (holds(LOCALNET, range.slice(0, range.indexOf('/')))) return [range];
  return holds(range, '127.0.0.1') ? [LOCALNET] : [];
}
