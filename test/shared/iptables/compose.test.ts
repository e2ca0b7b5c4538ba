import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Service } from '../../../functions/cluster/objects.ts';
import type { IptablesOptions } from '../../../functions/options.ts';
import { digestOf } from '../../../shared/digest.ts';
import type { EndpointSubset, Family } from '../../../shared/endpoint.ts';
import type { Files } from '../../../shared/files.ts';
import { isOwnChain } from '../../../shared/iptables/chain-names.ts';
import { ChainParts } from '../../../shared/iptables/chain-parts.ts';
import { composeProxy } from '../../../shared/iptables/compose.ts';
import { ComposeMemory } from '../../../shared/iptables/shard-rules.ts';
import { splitArguments } from '../../../shared/iptables/normalise.ts';
import { type Ruleset, TABLES, type Table } from '../../../shared/iptables/ruleset.ts';
import { endpoint, endpointsOf, node, port, proxyFiles, service, state, subset, terminating } from '../../functions/iptables/cluster.ts';
import { largeCluster } from '../../functions/iptables/large-cluster.ts';

const SVC = 'KUBE-SVC-XPGD46QRK7WJZT7O';
const NODE = node('n1', { addresses: [{ type: 'InternalIP', address: '192.168.0.2' }] });

function filesOf(
  services: readonly Service[],
  endpoints: Readonly<Record<string, readonly EndpointSubset[]>>,
  options: Partial<IptablesOptions> = {},
): Files {
  return proxyFiles(state(services, endpointsOf(endpoints), [NODE]), options).files;
}

function rulesOf(files: Files, table: Table, chain: string, family: Family = 'IPv4'): readonly string[] {
  return composeProxy(files, 'n1').rulesets[family].tables[table].chains.get(chain) ?? [];
}

const PODS = (...numbers: number[]): EndpointSubset =>
  subset(
    [port('p80', 80)],
    numbers.map((number) => endpoint(`10.180.0.${number}`)),
  );

/** Chains that rules of a table jump to, and that are not declared there. */
function undeclared(ruleset: Ruleset): string[] {
  return TABLES.flatMap((table) => {
    const { chains, jumps } = ruleset.tables[table];
    const rules = [...[...chains.values()].flat(), ...jumps.map(({ rule }) => rule)];
    const targets = rules.map((rule) => splitArguments(rule)).map((words) => words[words.indexOf('-j') + 1] ?? '');
    return targets.filter((target) => target.startsWith('KUBE-') && !chains.has(target));
  });
}

test('every chain that a rule leads to is declared, is ours, and is led to', () => {
  const { rulesets } = composeProxy(proxyFiles(largeCluster(250)).files, 'n1');
  for (const ruleset of Object.values(rulesets)) {
    assert.deepEqual(undeclared(ruleset), []);
    for (const table of TABLES) {
      const { chains, jumps } = ruleset.tables[table];
      const rules = [...chains.values()].flat().concat(jumps.map(({ rule }) => rule));
      const reached = new Set(rules.map((rule) => splitArguments(rule)).map((words) => words[words.indexOf('-j') + 1]));
      for (const chain of chains.keys()) assert.ok(isOwnChain(chain) && reached.has(chain), `${table} ${chain}`);
    }
  }
});

test('each endpoint is drawn as often as the others', () => {
  const rules = rulesOf(filesOf([service()], { 'ns1/svc1': [PODS(1, 2, 3, 4)] }, { clusterCIDRs: [] }), 'nat', SVC);
  const chances = rules.map((rule) => /--probability (\S+)/.exec(rule)?.[1]);
  assert.deepEqual(chances, ['0.2500000000', '0.3333333333', '0.5000000000', undefined]);
});

describe('dispatch', () => {
  test('a service changes one sub-chain of at most 256', () => {
    const services = Array.from({ length: 600 }, (_, index) =>
      service({ name: `s${index}`, clusterIPs: [`172.30.${index >> 8}.${index & 255}`] }),
    );
    const endpoints = Object.fromEntries(services.map(({ meta }) => [`ns1/${meta.name}`, [PODS(1)]]));
    const before = composeProxy(filesOf(services, endpoints), 'n1').rulesets.IPv4.tables.nat.chains;
    const after = composeProxy(filesOf(services.slice(1), endpoints), 'n1').rulesets.IPv4.tables.nat.chains;
    assert.equal(before.get('KUBE-SERVICES')?.length, 257);
    const changed = [...after.keys()].filter((chain) => after.get(chain)?.join('\n') !== before.get(chain)?.join('\n'));
    assert.deepEqual(changed, ['KUBE-DISP-00']);
  });

  test('node ports come last, through blocks', () => {
    const files = filesOf([service({ ports: [{ name: 'p80', port: 80, nodePort: 30_123 }] })], { 'ns1/svc1': [PODS(1)] });
    assert.match(rulesOf(files, 'nat', 'KUBE-SERVICES').at(-1) ?? '', /! -d 127\.0\.0\.0\/8 .*--dst-type LOCAL -j KUBE-NODEPORTS$/);
    assert.deepEqual(rulesOf(files, 'nat', 'KUBE-NODEPORTS'), ['-p tcp -m tcp --dport 30080:30143 -j KUBE-NP-TCP-30080']);
  });
});

test('an unknown pod CIDR prints no source', () => {
  const files = filesOf(
    [service({ externalTrafficPolicy: 'Local', externalIPs: ['198.51.100.1'] })],
    { 'ns1/svc1': [PODS(1)] },
    { clusterCIDRs: [] },
  );
  const { nat } = composeProxy(files, 'n1').rulesets.IPv4.tables;
  assert.equal(nat.chains.has('KUBE-MARK-OUTSIDE'), false);
  const sources = [...nat.chains.values()].flat().flatMap((rule) => /(?:^| )-s (\S*)/.exec(rule)?.[1] ?? []);
  assert.deepEqual(sources, ['10.180.0.1/32'], 'the hairpin only');
});

test('comments carry service and port, and stay on dispatch rules alone in a large cluster', () => {
  const many = Array.from({ length: 251 }, (_, index) => service({ name: `s${index}`, clusterIPs: [`172.30.1.${index}`] }));
  const endpoints = Object.fromEntries(many.map(({ meta }) => [`ns1/${meta.name}`, [PODS(1, 2, 3, 4)]]));
  const commentsOf = (services: readonly Service[]): { dispatch: boolean; chains: boolean } => {
    const { chains } = composeProxy(filesOf(services, endpoints), 'n1').rulesets.IPv4.tables.nat;
    const carries = (prefix: string): boolean =>
      [...chains].filter(([chain]) => chain.startsWith(prefix)).some(([, rules]) => rules.some((rule) => rule.includes('"ns1/s7:p80')));
    return { dispatch: carries('KUBE-DISP-'), chains: carries('KUBE-SVC-') };
  };
  assert.deepEqual(commentsOf(many.slice(0, 250)), { dispatch: true, chains: true });
  assert.deepEqual(commentsOf(many), { dispatch: true, chains: false });
});

test('what the kernel cannot do is left out', () => {
  const { filter, nat } = composeProxy(filesOf([], {}), 'n1', { conntrackLiberal: true, randomFully: false }).rulesets.IPv4.tables;
  assert.equal(
    filter.chains.get('KUBE-FORWARD')?.some((rule) => rule.includes('INVALID')),
    false,
  );
  assert.match(nat.chains.get('KUBE-POSTROUTING')?.at(-1) ?? '', /-j MASQUERADE$/);
});

test('a node that the cluster does not know serves all but local traffic', () => {
  const files = filesOf([service({ externalTrafficPolicy: 'Local', ports: [{ name: 'p80', port: 80, nodePort: 30_080 }] })], {
    'ns1/svc1': [PODS(1, 2)],
  });
  const { filter, nat } = composeProxy(files, 'stranger').rulesets.IPv4.tables;
  assert.equal(nat.chains.get(SVC)?.length, 3);
  assert.match(filter.chains.get('KUBE-NP-TCP-30080')?.join() ?? '', /-j DROP$/);
});

test('a version without options is refused', () => {
  assert.throws(() => composeProxy(new Map(), 'n1'), { code: 'bad-content' });
});

test('what is remembered changes no rule, and unchanged shards are not composed again', () => {
  const memory = new ComposeMemory();
  const [first, second] = [proxyFiles(largeCluster(60)).files, proxyFiles(largeCluster(61)).files];
  composeProxy(first, 'n1', undefined, memory);
  const warm = composeProxy(second, 'n1', undefined, memory);
  assert.deepEqual(warm, composeProxy(second, 'n1'));
  assert.deepEqual(composeProxy(first, 'n2', undefined, memory), composeProxy(first, 'n2'));
  const rulesets = [composeProxy(second, 'n1', undefined, memory), composeProxy(second, 'n1', undefined, memory)];
  const [once, again] = rulesets.map(({ rulesets: { IPv4 } }) => IPv4.tables.nat.chains);
  assert.ok(once instanceof ChainParts && again instanceof ChainParts);
  assert.ok(once.parts.length > 10 && once.parts.every((part, index) => part === again.parts[index]));
});

test('with what is remembered, only files that changed are needed', () => {
  const memory = new ComposeMemory();
  const digestsOf = (files: Files): Map<string, string> => new Map([...files].map(([path, content]) => [path, digestOf(content)]));
  const [first, second] = [proxyFiles(largeCluster(60)).files, proxyFiles(largeCluster(61)).files];
  assert.deepEqual(memory.unknownPaths(digestsOf(first), 'n1').sort(), [...first.keys()].sort());
  composeProxy(first, 'n1', undefined, memory);
  assert.deepEqual(memory.unknownPaths(digestsOf(first), 'n1'), []);
  assert.equal(memory.unknownPaths(digestsOf(first), 'n2').length, first.size);
  const needed = memory.unknownPaths(digestsOf(second), 'n1');
  const given = new Map([...second].filter(([path]) => needed.includes(path)));
  assert.deepEqual(composeProxy(given, 'n1', undefined, memory, digestsOf(second)), composeProxy(second, 'n1'));
});

test('UDP addresses name all endpoints that serve, whatever policies and topology choose', () => {
  const dns = service({
    externalIPs: ['198.51.100.1'],
    externalTrafficPolicy: 'Local',
    internalTrafficPolicy: 'Local',
    ports: [{ name: 'dns', port: 53, protocol: 'UDP', nodePort: 30_053 }],
  });
  const empty = service({ name: 'empty', clusterIPs: ['172.30.0.50'], ports: [{ port: 53, protocol: 'UDP' }] });
  const pods = subset([port('dns', 5353, 'UDP')], [endpoint('10.180.0.1', { node: 'n1' }), terminating('10.180.0.2')]);
  const udpWith = (nodePortAddresses: string[]): unknown[] => [
    ...composeProxy(filesOf([dns, empty], { 'ns1/svc1': [pods] }, { nodePortAddresses }), 'n1').udp,
  ];
  const all = ['10.180.0.1:5353', '10.180.0.2:5353'];
  assert.deepEqual(udpWith([])[0], ['0.0.0.0:30053', all]);
  assert.deepEqual(udpWith(['192.168.0.0/16']), [
    ['172.30.0.41:53', all],
    ['172.30.0.50:53', []],
    ['192.168.0.2:30053', all],
    ['198.51.100.1:53', all],
  ]);
});
