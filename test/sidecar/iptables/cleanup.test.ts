import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../../shared/digest.ts';
import { iptablesRole } from '../../../sidecar/iptables/apply.ts';
import { type Cleaned, cleanupIptables } from '../../../sidecar/iptables/cleanup.ts';
import { NodeRules } from '../../../sidecar/iptables/node-rules.ts';
import { BACK_ENDS } from '../../../sidecar/iptables/tool.ts';
import { type Namespace, namespacesMissing } from '../../end-to-end/namespace.ts';
import { proxyFiles, state } from '../../functions/iptables/cluster.ts';
import { namespaceFor, never, quiet, rulesetsOf, runIn, savedRules, settleOn } from './rulesets.ts';

const skip = await namespacesMissing();
const services = [
  { key: 'ns/a:http', address: '172.30.0.41', endpoints: ['10.180.0.1:80', '10.180.0.2:80'] },
  { key: 'ns/b:http', address: '172.30.0.42', endpoints: [] },
  { key: 'ns/c:http', address: 'fd00:30::41', endpoints: ['[fd00:180::1]:80'] },
];

const cleanUp = (namespace: Namespace, kubeProxyRuns = false): Promise<Cleaned> =>
  cleanupIptables({ logger: quiet, signal: never, kubeProxyRuns, run: runIn(namespace) });

for (const backEnd of BACK_ENDS) {
  test(`${backEnd}: all that was written goes, rules of others stay`, { skip }, async (t) => {
    const namespace = await namespaceFor(t, 'cleanup');
    const tool = `iptables-${backEnd}`;
    await settleOn(namespace, backEnd);
    const foreign = [
      ['-t', 'nat', '-N', 'KUBE-MARK-DROP'],
      ['-N', 'KUBE-FIREWALL'],
      ['-A', 'OUTPUT', '-j', 'KUBE-FIREWALL'],
      ['-A', 'FORWARD', '-s', '192.0.2.1', '-j', 'DROP'],
      ['-t', 'nat', '-A', 'PREROUTING', '-d', '192.0.2.2', '-j', 'KUBE-MARK-DROP'],
      ['-t', 'mangle', '-N', 'KUBE-KUBELET-CANARY'],
    ];
    for (const args of foreign) await namespace.must(tool, args);
    // An nft table that is empty again still shows: let there be none.
    for (const table of ['filter', 'nat']) await namespace.must(`ip6tables-${backEnd}`, ['-t', table, '-A', 'OUTPUT', '-d', '2001:db8::1']);
    const before = await savedRules(namespace, backEnd);
    await new NodeRules({ run: runIn(namespace), logger: quiet }).write(rulesetsOf(services), never);
    const cleaned = await cleanUp(namespace);
    assert.equal(cleaned.jumps, 12);
    assert.equal(await savedRules(namespace, backEnd), before);
    assert.deepEqual(await cleanUp(namespace), { chains: 0, jumps: 0 });
  });
}

test('a chain that other rules refer to stays, empty', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'cleanup');
  await new NodeRules({ run: runIn(namespace), logger: quiet }).write(rulesetsOf(services), never);
  for (const args of [
    ['-N', 'OTHER'],
    ['-A', 'OTHER', '-j', 'KUBE-MARK-MASQ'],
  ]) {
    await namespace.must('iptables-nft', ['-t', 'nat', ...args]);
  }
  await cleanUp(namespace);
  const left = (await savedRules(namespace, 'nft')).split('\n').filter((line) => line.includes('KUBE-'));
  assert.deepEqual(left, [':KUBE-MARK-MASQ -', '-A OTHER -j KUBE-MARK-MASQ']);
});

test('packets to 127/8 are let in from others no longer when their guard goes', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'cleanup');
  const value = async (): Promise<string> => (await namespace.must('cat', ['/proc/sys/net/ipv4/conf/all/route_localnet'])).trim();
  const { files } = proxyFiles(state([], new Map(), []), { localhostNodePorts: true });
  const target = { version: 1, sequence: 1, content: digestOf('1'), movedAt: 0, files };
  const { outcome } = await iptablesRole({ node: 'n1', logger: quiet, run: runIn(namespace) }).apply(target, never);
  assert.deepEqual([outcome, await value()], ['applied', '1']);
  await cleanUp(namespace);
  assert.equal(await value(), '0');

  await namespace.must('tee', ['/proc/sys/net/ipv4/conf/all/route_localnet'], '1');
  await cleanUp(namespace);
  assert.equal(await value(), '1', 'without a guard of ours somebody else set it');
});

test('beside a kube-proxy that did not start to serve yet nothing is removed', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'cleanup');
  await new NodeRules({ run: runIn(namespace), logger: quiet }).write(rulesetsOf(services), never);
  const before = await savedRules(namespace, 'nft');
  await assert.rejects(cleanUp(namespace, true), { code: 'rules-in-use', message: /wait for its first sync/ });
  assert.equal(await savedRules(namespace, 'nft'), before);
});
