// Small rulesets by hand, in the form that composing gives them, and the means to apply them in a namespace.

import { rm } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import type { Family } from '../../../shared/endpoint.ts';
import { CHAINS, DISPATCH_PREFIXES, endpointChain, serviceChain, serviceHash } from '../../../shared/iptables/chain-names.ts';
import type { BuiltInJump, ProxyState, Ruleset } from '../../../shared/iptables/ruleset.ts';
import { createLogger } from '../../../shared/logger.ts';
import { type RunProgram, runProgram } from '../../../sidecar/run-program.ts';
import type { BackEnd } from '../../../sidecar/iptables/tool.ts';
import { Namespace } from '../../end-to-end/namespace.ts';

export interface TestService {
  /** `namespace/name:port` */
  readonly key: string;
  readonly protocol?: 'TCP' | 'UDP';
  readonly address: string;
  readonly port?: number;
  /** `address:port` */
  readonly endpoints: readonly string[];
}

export type Rulesets = ProxyState['rulesets'];

export const quiet = createLogger('silent');
export const never = new AbortController().signal;

/** Both families' rulesets; a service belongs to the family of its address. */
export function rulesetsOf(services: readonly TestService[]): Rulesets {
  const ofFamily = (family: Family): Ruleset =>
    rulesetOf(
      family,
      services.filter(({ address }) => address.includes(':') === (family === 'IPv6')),
    );
  return { IPv4: ofFamily('IPv4'), IPv6: ofFamily('IPv6') };
}

function rulesetOf(family: Family, services: readonly TestService[]): Ruleset {
  const bits = family === 'IPv6' ? 128 : 32;
  const filter = new Map<string, string[]>([
    [CHAINS.services, []],
    [CHAINS.forward, ['-m conntrack --ctstate INVALID -j DROP', '-m mark --mark 0x4000/0x4000 -j ACCEPT']],
  ]);
  const nat = new Map<string, string[]>([
    [CHAINS.markMasquerade, ['-j MARK --or-mark 0x4000']],
    [CHAINS.postrouting, ['-m mark ! --mark 0x4000/0x4000 -j RETURN', '-j MARK --xor-mark 0x4000', '-j MASQUERADE --random-fully']],
    [CHAINS.services, []],
  ]);
  for (const { key, protocol = 'TCP', address, port = 80, endpoints } of services) {
    const proto = protocol.toLowerCase();
    const comment = `-m comment --comment "${key}"`;
    const match = `-d ${address}/${bits} -p ${proto} -m ${proto} --dport ${port}`;
    if (endpoints.length === 0) {
      filter
        .get(CHAINS.services)
        ?.push(`${comment} ${match} -j REJECT --reject-with ${family === 'IPv6' ? 'icmp6' : 'icmp'}-port-unreachable`);
      continue;
    }
    const chain = serviceChain('SVC', serviceHash(key, protocol));
    nat.set(chain, serviceRules(key, protocol, endpoints));
    for (const endpoint of endpoints) {
      const source = endpoint.slice(0, endpoint.lastIndexOf(':')).replace(/^\[|\]$/g, '');
      nat.set(endpointChain(key, protocol, endpoint), [
        `${comment} -s ${source}/${bits} -j ${CHAINS.markMasquerade}`,
        `${comment} -m ${proto} -p ${proto} -j DNAT --to-destination ${endpoint}`,
      ]);
    }
    const dispatch = DISPATCH_PREFIXES.services + lastByte(address);
    if (!nat.has(dispatch)) nat.get(CHAINS.services)?.push(`-j ${dispatch}`);
    nat.set(dispatch, [...(nat.get(dispatch) ?? []), `${comment} ${match} -j ${chain}`]);
  }
  const servicesJump = (chain: BuiltInJump['chain'], match = ''): BuiltInJump => ({
    chain,
    rule: `${match}-m comment --comment "service portals" -j ${CHAINS.services}`,
  });
  const opening = '-m conntrack --ctstate NEW ';
  return {
    family,
    tables: {
      filter: {
        chains: filter,
        jumps: [servicesJump('OUTPUT', opening), servicesJump('FORWARD', opening), { chain: 'FORWARD', rule: `-j ${CHAINS.forward}` }],
      },
      nat: {
        chains: nat,
        jumps: [servicesJump('PREROUTING'), servicesJump('OUTPUT'), { chain: 'POSTROUTING', rule: `-j ${CHAINS.postrouting}` }],
      },
    },
  };
}

function serviceRules(key: string, protocol: 'TCP' | 'UDP', endpoints: readonly string[]): string[] {
  return endpoints.map((endpoint, index) => {
    const left = endpoints.length - index;
    const choice = left === 1 ? '' : `-m statistic --mode random --probability ${(1 / left).toFixed(10)} `;
    return `-m comment --comment "${key}" ${choice}-j ${endpointChain(key, protocol, endpoint)}`;
  });
}

/** Enough of a spread for a dispatch: the last two characters of the address in hex digits. */
function lastByte(address: string): string {
  const last = address.includes(':')
    ? Number.parseInt(address.slice(address.lastIndexOf(':') + 1) || '0', 16)
    : Number(address.split('.')[3]);
  return (last & 255).toString(16).padStart(2, '0');
}

/** A namespace for one test, removed after it. */
export async function namespaceFor(t: TestContext, label: string): Promise<Namespace> {
  const namespace = await Namespace.create(label);
  t.after(() => removeNamespace(namespace));
  return namespace;
}

export async function removeNamespace(namespace: Namespace): Promise<void> {
  await namespace.close();
  await rm(namespace.environment['XTABLES_LOCKFILE'] ?? '', { force: true });
}

/** Runs programs inside a namespace, with its own lock of the legacy tables. */
export function runIn(namespace: Namespace): RunProgram {
  const lock = namespace.environment['XTABLES_LOCKFILE'] ?? '';
  return (argv, options) =>
    runProgram(['ip', 'netns', 'exec', namespace.name, ...argv], { ...options, environment: { XTABLES_LOCKFILE: lock } });
}

/** Makes a namespace one whose rules are of this back end, by one foreign rule. */
export async function settleOn(namespace: Namespace, backEnd: BackEnd): Promise<void> {
  await namespace.must(`iptables-${backEnd}`, ['-t', 'nat', '-A', 'PREROUTING', '-p', 'tcp', '--dport', '9', '-j', 'RETURN']);
}

/** The rules of a namespace as saved, without counters, dates and comments, in one order: chains and rules sorted by chain. */
export async function savedRules(namespace: Namespace, backEnd: BackEnd): Promise<string> {
  const texts = [];
  for (const family of ['iptables', 'ip6tables']) texts.push(await namespace.must(`${family}-${backEnd}-save`, []));
  return texts.map((text) => text.split('*').slice(1).map(sortedTable).sort().join('')).join('--- IPv6\n');
}

function sortedTable(text: string): string {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const chains = lines.filter((line) => line.startsWith(':')).map((line) => line.replace(/ \[.*/, ''));
  const rules = lines.filter((line) => line.startsWith('-A '));
  const chainOf = (line: string): string => line.split(' ')[1] ?? '';
  const grouped = [...new Set(rules.map(chainOf))].sort().flatMap((chain) => rules.filter((line) => chainOf(line) === chain));
  return [lines[0], ...chains.sort(), ...grouped, ''].join('\n');
}
