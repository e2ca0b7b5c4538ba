// Where packets go, with real rules on a real node: each row sends traffic and looks at who answered and whose address it saw.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { endpoint, port, service, subset, terminating, virtualIP } from '../functions/iptables/cluster.ts';
import { namespacesMissing, type Question } from './namespace.ts';
import { type BackEnd, type Place, ServiceNetwork } from './service-network.ts';

const skip = await namespacesMissing();

const NEAR = endpoint('10.180.0.1', { node: 'n1' });
const FAR = endpoint('10.180.2.1', { node: 'n2' });
const NODE = '192.168.0.2';
const CLIENT = '203.0.113.2';
const UDP: Partial<Question> = { protocol: 'udp' };
/** Long enough for an answer, short for silence. */
const SILENCE: Partial<Question> = { timeoutMs: 700 };

/** Runs the tests with a network of their own. */
function onNetwork(title: string, backEnd: BackEnd, body: (network: () => ServiceNetwork) => void): void {
  describe(`${title}, iptables-${backEnd}`, { skip }, () => {
    let network: ServiceNetwork | undefined;
    const running = (): ServiceNetwork => {
      if (network === undefined) throw new Error('the network is not up');
      return network;
    };
    before(async () => {
      network = await ServiceNetwork.create(backEnd);
      await listenOnPods(network);
    });
    after(() => network?.close());
    body(running);
  });
}

async function listenOnPods(network: ServiceNetwork): Promise<void> {
  for (const address of ['172.30.0.41', '172.30.0.42', '198.51.100.80', '198.51.100.81', 'fd00:30::129']) {
    await network.at('beyond').listen('tcp', address, 80);
    await network.at('beyond').listen('udp', address, 80);
  }
  for (const [place, address] of [
    ['near', '10.180.0.1'],
    ['far', '10.180.2.1'],
    ['near', 'fd00:180::1'],
    ['far', 'fd00:180:2::1'],
  ] as const) {
    for (const number of [80, 8443, 5353]) await network.at(place).listen('tcp', address, number);
    await network.at(place).listen('udp', address, 53);
  }
}

const SVC1 = service();
const SVC2 = service({
  name: 'svc2',
  clusterIPs: ['172.30.0.42'],
  ports: [
    { name: 'http', port: 80 },
    { name: 'https', port: 443 },
    { name: 'dns', port: 53, protocol: 'UDP' },
    { name: 'dns-tcp', port: 53 },
  ],
});
const SVC2_PORTS = [port('http', 80), port('https', 8443), port('dns', 53, 'UDP'), port('dns-tcp', 5353)];

for (const backEnd of ['nft', 'legacy'] as const) {
  onNetwork('cluster IPs', backEnd, (network) => {
    before(async () => {
      await network().serve([SVC1, SVC2], {
        'ns1/svc1': [subset([port('p80', 80)], [NEAR])],
        'ns1/svc2': [subset(SVC2_PORTS, [NEAR, FAR])],
      });
    });

    interface Row {
      readonly title: string;
      readonly from: Place | 'node';
      readonly to: readonly [string, number];
      readonly servers: readonly string[];
      readonly seen: string;
      readonly more?: Partial<Question>;
    }
    const rows: readonly Row[] = [
      { title: 'pod to one endpoint', from: 'idle', to: ['172.30.0.41', 80], servers: ['10.180.0.1:80'], seen: '10.180.0.2' },
      { title: 'pod to itself, masqueraded', from: 'near', to: ['172.30.0.41', 80], servers: ['10.180.0.1:80'], seen: NODE },
      {
        title: 'pod to two endpoints',
        from: 'idle',
        to: ['172.30.0.42', 80],
        servers: ['10.180.0.1:80', '10.180.2.1:80'],
        seen: '10.180.0.2',
      },
      {
        title: 'pod to another port',
        from: 'idle',
        to: ['172.30.0.42', 443],
        servers: ['10.180.0.1:8443', '10.180.2.1:8443'],
        seen: '10.180.0.2',
      },
      {
        title: 'pod over UDP',
        from: 'idle',
        to: ['172.30.0.42', 53],
        servers: ['10.180.0.1:53', '10.180.2.1:53'],
        seen: '10.180.0.2',
        more: UDP,
      },
      {
        title: 'pod over TCP to the same port',
        from: 'idle',
        to: ['172.30.0.42', 53],
        servers: ['10.180.0.1:5353', '10.180.2.1:5353'],
        seen: '10.180.0.2',
      },
      {
        title: 'UDP to a TCP port, untouched',
        from: 'idle',
        to: ['172.30.0.42', 80],
        servers: ['172.30.0.42:80'],
        seen: '10.180.0.2',
        more: UDP,
      },
      { title: 'node, masqueraded', from: 'node', to: ['172.30.0.41', 80], servers: ['10.180.0.1:80'], seen: NODE },
      { title: 'client outside, masqueraded', from: 'client', to: ['172.30.0.41', 80], servers: ['10.180.0.1:80'], seen: NODE },
    ];
    for (const { title, from, to, servers, seen, more } of rows) {
      test(title, async () => {
        assert.deepEqual(await network().askForAll(from, ...to, servers, more), [seen]);
      });
    }
  });

  onNetwork('node ports and affinity', backEnd, (network) => {
    const web = service({
      type: 'NodePort',
      ports: [
        { name: 'p80', port: 80, nodePort: 30_080 },
        { name: 'dns', port: 53, protocol: 'UDP', nodePort: 30_053 },
      ],
    });
    const ports = [port('p80', 80), port('dns', 53, 'UDP')];
    const servers = ['10.180.0.1:80', '10.180.2.1:80'];

    test('a node port leads to all endpoints, masqueraded, from everywhere', async () => {
      await network().serve([web], { 'ns1/svc1': [subset(ports, [NEAR, FAR])] });
      for (const place of ['client', 'idle', 'node'] as const) {
        assert.deepEqual(await network().askForAll(place, NODE, 30_080, servers), [NODE], place);
      }
      assert.deepEqual(await network().askForAll('client', NODE, 30_053, ['10.180.0.1:53', '10.180.2.1:53'], UDP), [NODE]);
    });

    test('a client keeps its endpoint under affinity', async () => {
      await network().serve([service({ sessionAffinity: 'ClientIP', affinityTimeout: 600 })], {
        'ns1/svc1': [subset([port('p80', 80)], [NEAR, FAR])],
      });
      const first = await network().ask('idle', '172.30.0.41', 80);
      for (let again = 0; again < 30; again++) assert.deepEqual(await network().ask('idle', '172.30.0.41', 80), first);
    });
  });
}

onNetwork('node-port addresses', 'nft', (network) => {
  const web = service({ type: 'NodePort', ports: [{ name: 'p80', port: 80, nodePort: 30_080 }] });
  const endpoints = { 'ns1/svc1': [subset([port('p80', 80)], [NEAR])] };

  test('only the allowed addresses answer', async () => {
    await network().serve([web], endpoints, { nodePortAddresses: ['192.168.9.0/24'] });
    assert.deepEqual(await network().askForAll('client', '192.168.9.2', 30_080, ['10.180.0.1:80']), [NODE]);
    assert.deepEqual(await network().ask('client', NODE, 30_080), { error: 'ECONNREFUSED' });
    await network().at('node').listen('tcp', NODE, 30_081);
    const empty = service({ name: 'empty', clusterIPs: ['172.30.0.43'], ports: [{ port: 80, nodePort: 30_081 }] });
    await network().serve([empty], {}, { nodePortAddresses: ['192.168.9.0/24'] });
    assert.deepEqual(await network().ask('client', '192.168.9.2', 30_081), { error: 'ECONNREFUSED' });
    assert.deepEqual(await network().ask('client', NODE, 30_081), { server: `${NODE}:30081`, client: CLIENT });
  });

  test('localhost answers only when it was asked for, and nobody else reaches 127/8', async () => {
    const node = network().at('node');
    const client = network().at('client');
    await network().serve([web], endpoints);
    assert.deepEqual(await network().ask('node', '127.0.0.1', 30_080), { error: 'ECONNREFUSED' });

    await node.must('sysctl', ['-q', '-w', 'net.ipv4.conf.all.route_localnet=1']);
    await node.listen('tcp', '127.0.0.1', 9000);
    await client.must('sysctl', ['-q', '-w', 'net.ipv4.conf.all.route_localnet=1']);
    await client.must('sh', ['-c', 'ip address del 127.0.0.1/8 dev lo; ip route add 127.0.0.1 via 169.254.1.1']);
    const intrusion = { from: CLIENT, ...SILENCE };
    assert.deepEqual(await network().ask('client', '127.0.0.1', 9000, intrusion), { server: '127.0.0.1:9000', client: CLIENT });

    await network().serve([web], endpoints, { localhostNodePorts: true });
    assert.deepEqual(await network().ask('client', '127.0.0.1', 9000, intrusion), { error: 'TIMEOUT' });
    assert.deepEqual(await network().ask('client', '127.0.0.1', 30_080, intrusion), { error: 'TIMEOUT' });
    assert.deepEqual(await network().ask('node', '127.0.0.1', 9000), { server: '127.0.0.1:9000', client: '127.0.0.1' });
    assert.deepEqual(await network().askForAll('node', '127.0.0.1', 30_080, ['10.180.0.1:80']), [NODE]);
  });
});

onNetwork('traffic policies', 'nft', (network) => {
  const both = { 'ns1/svc1': [subset([port('p80', 80)], [NEAR, FAR])] };
  const elsewhere = { 'ns1/svc1': [subset([port('p80', 80)], [FAR])] };
  const all = ['10.180.0.1:80', '10.180.2.1:80'];
  const local = service({
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    externalIPs: ['198.51.100.80'],
    healthCheckNodePort: 32_001,
    ports: [{ name: 'p80', port: 80, nodePort: 30_080 }],
  });

  test('external policy Local: a client reaches this node only and keeps its address', async () => {
    await network().serve([local], both);
    for (const address of ['198.51.100.80', NODE]) {
      const number = address === NODE ? 30_080 : 80;
      for (let again = 0; again < 12; again++) {
        assert.deepEqual(await network().ask('client', address, number), { server: '10.180.0.1:80', client: CLIENT });
      }
      assert.deepEqual(await network().askForAll('idle', address, number, all), ['10.180.0.2']);
      assert.deepEqual(await network().askForAll('node', address, number, all), [NODE]);
    }
  });

  test('external policy Local without a local endpoint: silence for clients, all endpoints for pods', async () => {
    await network().serve([local], elsewhere);
    assert.deepEqual(await network().ask('client', '198.51.100.80', 80, SILENCE), { error: 'TIMEOUT' });
    assert.deepEqual(await network().ask('client', NODE, 30_080, SILENCE), { error: 'TIMEOUT' });
    assert.deepEqual(await network().askForAll('idle', NODE, 30_080, ['10.180.2.1:80']), ['10.180.0.2']);
    assert.deepEqual(await network().askForAll('client', '172.30.0.41', 80, ['10.180.2.1:80']), [NODE]);
  });

  test('both policies Local: cluster IPs stay here, external addresses lead pods everywhere', async () => {
    await network().serve([{ ...local, internalTrafficPolicy: 'Local' }], both);
    for (let again = 0; again < 12; again++) {
      assert.deepEqual(await network().ask('idle', '172.30.0.41', 80), { server: '10.180.0.1:80', client: '10.180.0.2' });
    }
    assert.deepEqual(await network().askForAll('idle', '198.51.100.80', 80, all), ['10.180.0.2']);
  });

  test('internal policy Local without a local endpoint: silence inside, service outside', async () => {
    await network().serve([{ ...local, externalTrafficPolicy: 'Cluster', internalTrafficPolicy: 'Local' }], elsewhere);
    assert.deepEqual(await network().ask('idle', '172.30.0.41', 80, SILENCE), { error: 'TIMEOUT' });
    assert.deepEqual(await network().askForAll('client', '198.51.100.80', 80, ['10.180.2.1:80']), [NODE]);
  });

  test('endpoints that terminate serve while none is ready', async () => {
    const leaving = terminating('10.180.0.1', { node: 'n1' });
    await network().serve([SVC1], { 'ns1/svc1': [subset([port('p80', 80)], [leaving])] });
    assert.deepEqual(await network().askForAll('idle', '172.30.0.41', 80, ['10.180.0.1:80']), ['10.180.0.2']);
    await network().serve([SVC1], { 'ns1/svc1': [subset([port('p80', 80)], [leaving, FAR])] });
    for (let again = 0; again < 12; again++) {
      assert.deepEqual(await network().ask('idle', '172.30.0.41', 80), { server: '10.180.2.1:80', client: '10.180.0.2' });
    }
  });

  test('health checks, and traffic that is masqueraded or answers, pass a node that drops all else', async () => {
    await network().serve([local, { ...SVC2, externalIPs: ['198.51.100.81'] }], { ...both, 'ns1/svc2': [subset(SVC2_PORTS, [NEAR])] });
    const node = network().at('node');
    await node.listen('tcp', NODE, 32_001);
    await node.listen('tcp', NODE, 32_002);
    for (const chain of ['INPUT', 'FORWARD']) await node.must('iptables', ['-P', chain, 'DROP']);
    assert.deepEqual(await network().ask('client', NODE, 32_001), { server: `${NODE}:32001`, client: CLIENT });
    assert.deepEqual(await network().ask('client', NODE, 32_002, SILENCE), { error: 'TIMEOUT' });
    assert.deepEqual(await network().askForAll('client', '198.51.100.81', 80, ['10.180.0.1:80']), [NODE]);
    assert.deepEqual(await network().ask('client', '10.180.0.1', 80, SILENCE), { error: 'TIMEOUT' });
  });
});

onNetwork('services without endpoints', 'nft', (network) => {
  test('clients are told, over TCP and UDP, at every address', async () => {
    const empty = service({
      type: 'LoadBalancer',
      externalIPs: ['198.51.100.80'],
      loadBalancerIngress: [virtualIP('198.51.100.81'), virtualIP('198.51.100.82', 'Proxy')],
      ports: [
        { name: 'p80', port: 80, nodePort: 30_080 },
        { name: 'dns', port: 53, protocol: 'UDP', nodePort: 30_053 },
      ],
    });
    const refused = { error: 'ECONNREFUSED' };
    await network().serve([empty], {});
    for (const place of ['idle', 'node', 'client'] as const) {
      assert.deepEqual(await network().ask(place, '172.30.0.41', 80), refused, place);
    }
    assert.deepEqual(await network().ask('idle', '172.30.0.41', 53, UDP), refused);
    assert.deepEqual(await network().ask('client', '198.51.100.80', 80), refused);
    assert.deepEqual(await network().ask('client', '198.51.100.81', 80), refused);
    assert.deepEqual(await network().ask('client', NODE, 30_080), refused);
    assert.deepEqual(await network().ask('client', NODE, 30_053, UDP), refused);
    await network().serve([], {});
    assert.deepEqual(await network().ask('client', '198.51.100.80', 80), { server: '198.51.100.80:80', client: CLIENT });
  });
});

onNetwork('load-balancer source ranges', 'nft', (network) => {
  const guarded = service({
    type: 'LoadBalancer',
    loadBalancerIngress: [virtualIP('198.51.100.80')],
    loadBalancerSourceRanges: ['203.0.113.0/24'],
    ports: [{ name: 'p80', port: 80, nodePort: 30_080 }],
  });
  const endpoints = { 'ns1/svc1': [subset([port('p80', 80)], [NEAR])] };
  const stranger = { from: '203.0.114.2' };

  test('who is in a range passes, others meet silence, node ports are not guarded', async () => {
    await network().serve([guarded], endpoints);
    assert.deepEqual(await network().askForAll('client', '198.51.100.80', 80, ['10.180.0.1:80']), [NODE]);
    assert.deepEqual(await network().ask('client', '198.51.100.80', 80, { ...stranger, ...SILENCE }), { error: 'TIMEOUT' });
    assert.deepEqual(await network().ask('idle', '198.51.100.80', 80, SILENCE), { error: 'TIMEOUT' });
    assert.deepEqual(await network().ask('node', '198.51.100.80', 80, SILENCE), { error: 'TIMEOUT' });
    assert.deepEqual(await network().ask('client', NODE, 30_080, stranger), { server: '10.180.0.1:80', client: NODE });
  });

  test('a range that holds the node lets the node in', async () => {
    await network().serve([{ ...guarded, loadBalancerSourceRanges: ['192.168.0.0/24'] }], endpoints);
    assert.deepEqual(await network().askForAll('node', '198.51.100.80', 80, ['10.180.0.1:80']), [NODE]);
    assert.deepEqual(await network().ask('client', '198.51.100.80', 80, SILENCE), { error: 'TIMEOUT' });
  });

  test('ranges of which none is good let nobody in', async () => {
    await network().serve([{ ...guarded, loadBalancerSourceRanges: ['everybody', 'fd00::/8'] }], endpoints);
    assert.deepEqual(await network().ask('client', '198.51.100.80', 80, SILENCE), { error: 'TIMEOUT' });
  });
});

onNetwork('masquerade', 'nft', (network) => {
  const endpoints = { 'ns1/svc1': [subset([port('p80', 80)], [NEAR])] };

  test('everybody under masqueradeAll, nobody while the pods are unknown', async () => {
    await network().serve([SVC1], endpoints, { masqueradeAll: true });
    assert.deepEqual(await network().askForAll('idle', '172.30.0.41', 80, ['10.180.0.1:80']), [NODE]);
    await network().serve([SVC1], endpoints, { clusterCIDRs: [] });
    assert.deepEqual(await network().askForAll('client', '172.30.0.41', 80, ['10.180.0.1:80']), [CLIENT]);
    await network().serve([SVC1], endpoints, { clusterCIDRs: ['10.180.0.0/24', '10.200.0.0/16'] });
    assert.deepEqual(await network().askForAll('idle', '172.30.0.41', 80, ['10.180.0.1:80']), ['10.180.0.2']);
    assert.deepEqual(await network().askForAll('far', '172.30.0.41', 80, ['10.180.0.1:80']), [NODE]);
  });
});

for (const backEnd of ['nft', 'legacy'] as const) {
  onNetwork('IPv6', backEnd, (network) => {
    test('cluster IPs, hairpin, node ports, refusals', async () => {
      const web = service({ clusterIPs: ['fd00:30::129'], ports: [{ name: 'p80', port: 80, nodePort: 30_080 }] });
      const empty = service({ name: 'empty', clusterIPs: ['fd00:30::'], ports: [{ port: 80, nodePort: 30_081 }] });
      const near = endpoint('fd00:180::1', { node: 'n1' });
      const far = endpoint('fd00:180:2::1', { node: 'n2' });
      const servers = ['[fd00:180::1]:80', '[fd00:180:2::1]:80'];
      await network().serve(
        [web, empty],
        { 'ns1/svc1': [subset([port('p80', 80)], [near, far], 'IPv6')] },
        { clusterCIDRs: ['fd00:180::/32'] },
      );
      assert.deepEqual(await network().askForAll('idle', 'fd00:30::129', 80, servers), ['fd00:180::2']);
      assert.deepEqual(await network().askForAll('client', 'fd00:30::129', 80, servers), ['fd00:192::2']);
      assert.deepEqual(await network().askForAll('client', 'fd00:192::2', 30_080, servers), ['fd00:192::2']);
      assert.deepEqual(await network().ask('idle', 'fd00:30::', 80), { error: 'ECONNREFUSED' });
      assert.deepEqual(await network().ask('client', 'fd00:192::2', 30_081), { error: 'ECONNREFUSED' });
      await network().serve([web], { 'ns1/svc1': [subset([port('p80', 80)], [near], 'IPv6')] }, { clusterCIDRs: ['fd00:180::/32'] });
      assert.deepEqual(await network().askForAll('near', 'fd00:30::129', 80, ['[fd00:180::1]:80']), ['fd00:192::2']);
    });
  });
}
