import assert from 'node:assert/strict';
import { test } from 'node:test';
import { selectEndpoints } from '../../../shared/iptables/select.ts';
import type { ProxyEndpoint, ProxyNode, ProxyService } from '../../../shared/iptables/service.ts';

const PORT = { name: 'http', protocol: 'TCP', port: 80, nodePort: 0, clusterIPs: [], externalIPs: [], loadBalancerIPs: [] } as const;
const HERE: ProxyNode = { name: 'n1', internalIPs: [], externalIPs: [], zone: 'z1' };

function at(address: string, changes: Partial<ProxyEndpoint> = {}): ProxyEndpoint {
  return { address, ports: { http: 80 }, ready: true, node: null, hintZones: [], hintNodes: [], ...changes };
}

function selected(endpoints: readonly ProxyEndpoint[], node = HERE): { cluster: string[]; local: string[] } {
  const service: ProxyService = {
    namespace: 'ns1',
    name: 'svc1',
    families: ['IPv4'],
    ports: [PORT],
    internalPolicy: 'Cluster',
    externalPolicy: 'Cluster',
    affinitySeconds: null,
    sourceRanges: null,
    healthCheckNodePort: 0,
    endpoints,
  };
  const { cluster, local } = selectEndpoints(service, PORT, 'IPv4', node);
  return { cluster: cluster.map(({ text }) => text), local: local.map(({ text }) => text) };
}

test('ready endpoints come first; terminating ones stand in, for each policy on its own', () => {
  const leaving = at('10.0.0.1', { ready: false, node: 'n1' });
  assert.deepEqual(selected([leaving, at('10.0.0.2', { node: 'n2' })]), { cluster: ['10.0.0.2:80'], local: ['10.0.0.1:80'] });
  assert.deepEqual(selected([leaving]), { cluster: ['10.0.0.1:80'], local: ['10.0.0.1:80'] });
  assert.deepEqual(selected([]), { cluster: [], local: [] });
});

test('node hints hold only when every ready endpoint carries them and one names the node', () => {
  const mine = at('10.0.0.1', { hintNodes: ['n1'], hintZones: ['z2'] });
  const other = at('10.0.0.2', { hintNodes: ['n2'], hintZones: ['z1'] });
  const bare = at('10.0.0.3', { hintZones: ['z2'] });
  assert.deepEqual(selected([mine, other]).cluster, ['10.0.0.1:80']);
  assert.deepEqual(selected([mine, other, bare]).cluster, ['10.0.0.2:80'], 'zones decide');
  assert.deepEqual(selected([mine, other], { ...HERE, name: 'n3' }).cluster, ['10.0.0.2:80'], 'zones decide');
});

test('zone hints likewise; without them, or without a zone, all serve', () => {
  const mine = at('10.0.0.1', { hintZones: ['z1'] });
  const other = at('10.0.0.2', { hintZones: ['z2'] });
  assert.deepEqual(selected([mine, other]).cluster, ['10.0.0.1:80']);
  assert.deepEqual(selected([mine, at('10.0.0.2')]).cluster, ['10.0.0.1:80', '10.0.0.2:80']);
  assert.deepEqual(selected([mine, other], { ...HERE, zone: null }).cluster, ['10.0.0.1:80', '10.0.0.2:80']);
  assert.deepEqual(selected([mine, other], { ...HERE, zone: 'z3' }).cluster, ['10.0.0.1:80', '10.0.0.2:80']);
});

test('terminating endpoints have no say about hints, and stand in wherever they are', () => {
  const mine = at('10.0.0.1', { hintZones: ['z1'] });
  const leaving = at('10.0.0.3', { ready: false });
  assert.deepEqual(selected([mine, leaving]).cluster, ['10.0.0.1:80']);
  assert.deepEqual(selected([at('10.0.0.4', { ready: false, hintZones: ['z2'] })]).cluster, ['10.0.0.4:80']);
});

test('an address and port counts once, ready if one of its doubles is; the same address at other ports counts too', () => {
  const leaving = at('10.0.0.1', { ready: false, node: 'n1' });
  const ready = at('10.0.0.1', { node: 'n1' });
  for (const order of [
    [leaving, ready],
    [ready, leaving],
  ]) {
    assert.deepEqual(selected([...order, at('10.0.0.2')]), { cluster: ['10.0.0.1:80', '10.0.0.2:80'], local: ['10.0.0.1:80'] });
  }
  assert.deepEqual(selected([ready, at('10.0.0.1', { ports: { http: 81 } })]).cluster, ['10.0.0.1:80', '10.0.0.1:81']);
});

test('endpoints without the port, or of the other family, are none of it', () => {
  assert.deepEqual(selected([at('10.0.0.1', { ports: { https: 443 } }), at('fd00::1')]).cluster, []);
});
