// Cluster IPs: each row sends traffic over a node's real rules and looks at who answered and whose address it saw.

import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { addressPort } from '../../shared/iptables/addresses.ts';
import { endpoint, port, service, subset } from '../functions/iptables/cluster.ts';
import type { Question } from './namespace.ts';
import { onNodes, type Place, REFUSED, SILENCE, TIMEOUT, UDP } from './service-network.ts';

const SVC2_PORTS = [port('http', 80), port('https', 8443), port('dns', 53, 'UDP'), port('dns-tcp', 5353)];

interface Row {
  readonly title: string;
  readonly from: Place;
  readonly to: readonly [string, number];
  readonly servers: readonly string[];
  readonly seen: string;
  readonly more?: Partial<Question>;
}

onNodes('cluster IPs', (network, at) => {
  const one = [addressPort(at.near, 80)];
  const both = (target: number): string[] => [addressPort(at.near, target), addressPort(at.far, target)];
  const near = endpoint(at.near, { node: 'n1' });
  const far = endpoint(at.far, { node: 'n2' });
  const web = service({ clusterIPs: [at.web] });
  const other = service({
    name: 'svc2',
    clusterIPs: [at.other],
    ports: [
      { name: 'http', port: 80 },
      { name: 'https', port: 443 },
      { name: 'dns', port: 53, protocol: 'UDP' },
      { name: 'dns-tcp', port: 53 },
    ],
  });
  const webNear = { 'ns1/svc1': [subset([port('p80', 80)], [near], at.family)] };

  const rows: readonly Row[] = [
    { title: 'pod to one endpoint', from: 'idle', to: [at.web, 80], servers: one, seen: at.idle },
    { title: 'pod to itself, masqueraded', from: 'near', to: [at.web, 80], servers: one, seen: at.node },
    { title: 'pod to two endpoints', from: 'idle', to: [at.other, 80], servers: both(80), seen: at.idle },
    { title: 'pod to another port', from: 'idle', to: [at.other, 443], servers: both(8443), seen: at.idle },
    { title: 'pod over UDP', from: 'idle', to: [at.other, 53], servers: both(53), seen: at.idle, more: UDP },
    { title: 'pod over TCP to the same port', from: 'idle', to: [at.other, 53], servers: both(5353), seen: at.idle },
    {
      title: 'UDP to a TCP port, untouched',
      from: 'idle',
      to: [at.other, 80],
      servers: [addressPort(at.other, 80)],
      seen: at.idle,
      more: UDP,
    },
    { title: 'node, masqueraded', from: 'node', to: [at.web, 80], servers: one, seen: at.node },
    { title: 'client outside, masqueraded', from: 'client', to: [at.web, 80], servers: one, seen: at.node },
  ];
  describe('who answers, and whom it sees', () => {
    before(() => network().serve([web, other], { ...webNear, 'ns1/svc2': [subset(SVC2_PORTS, [near, far], at.family)] }));
    for (const { title, from, to, servers, seen, more } of rows) {
      test(title, async () => {
        assert.deepEqual(await network().askForAll(from, ...to, servers, more), [seen]);
      });
    }
  });

  test('masqueradeAll covers pods too; while the pods are unknown nobody is covered', async () => {
    await network().serve([web], webNear, { masqueradeAll: true });
    assert.deepEqual(await network().askForAll('idle', at.web, 80, one), [at.node]);
    await network().serve([web], webNear, { clusterCIDRs: [] });
    assert.deepEqual(await network().askForAll('client', at.web, 80, one), [at.client]);
    assert.deepEqual(await network().askForAll('near', at.web, 80, one), [at.node], 'an endpoint that reaches itself is, always');
  });

  test('of several pod CIDRs each counts, and what is in none is masqueraded', async () => {
    const range = at.family === 'IPv4' ? ['10.180.0.0/24', '10.200.0.0/16'] : ['fd00:180::/64', 'fd00:200::/32'];
    await network().serve([web], webNear, { clusterCIDRs: range });
    assert.deepEqual(await network().askForAll('idle', at.web, 80, one), [at.idle]);
    assert.deepEqual(await network().askForAll('far', at.web, 80, one), [at.node]);
  });

  test('under the internal policy Local only endpoints of the node are used; without one there is silence', async () => {
    const local = { ...web, internalTrafficPolicy: 'Local' };
    await network().serve([local], { 'ns1/svc1': [subset([port('p80', 80)], [near, far], at.family)] });
    for (let again = 0; again < 12; again++) {
      assert.deepEqual(await network().ask('idle', at.web, 80), { server: one[0], client: at.idle });
    }
    await network().serve([local], { 'ns1/svc1': [subset([port('p80', 80)], [far], at.family)] });
    assert.deepEqual(await network().ask('idle', at.web, 80, SILENCE), TIMEOUT);
  });

  test('headless, ExternalName, and services of another proxy are not touched', async () => {
    const untouched = [
      service({ name: 'headless', clusterIPs: ['None'], externalIPs: [at.external] }),
      service({ name: 'elsewhere', type: 'ExternalName', clusterIPs: [at.web] }),
      service({ name: 'others', clusterIPs: [at.other], labels: { 'service.kubernetes.io/service-proxy-name': 'else' } }),
    ];
    const there = [subset([port('p80', 80)], [near], at.family)];
    await network().serve(untouched, { 'ns1/headless': there, 'ns1/elsewhere': there, 'ns1/others': there });
    for (const address of [at.external, at.web, at.other]) {
      assert.deepEqual(await network().ask('client', address, 80), { server: addressPort(address, 80), client: at.client });
    }
  });

  test('a cluster IP whose last byte is 0 is found among the others', async () => {
    await network().serve([web, service({ name: 'zero', clusterIPs: [at.zero] })], webNear);
    assert.deepEqual(await network().ask('idle', at.zero, 80), REFUSED);
    assert.deepEqual(await network().askForAll('idle', at.web, 80, one), [at.idle]);
  });
});
