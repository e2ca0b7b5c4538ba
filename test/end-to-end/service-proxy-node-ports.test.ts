// Where node ports answer: at every address, at those that are allowed, on localhost when it was asked for.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressPort } from '../../shared/iptables/addresses.ts';
import { endpoint, port, service, subset } from '../functions/iptables/cluster.ts';
import { onNodes, REFUSED, SILENCE, TIMEOUT } from './service-network.ts';

onNodes('places of node ports', (network, at) => {
  const web = service({ type: 'NodePort', clusterIPs: [at.web], ports: [{ name: 'p80', port: 80, nodePort: 30_080 }] });
  const one = [addressPort(at.near, 80)];
  const endpoints = { 'ns1/svc1': [subset([port('p80', 80)], [endpoint(at.near, { node: 'n1' })], at.family)] };
  const loopback = at.family === 'IPv4' ? '127.0.0.1' : '::1';

  test('node ports answer at every address of the node, also at those that the cluster does not know', async () => {
    await network().serve([web], endpoints);
    for (const address of [at.node, at.node2, at.unknown]) {
      assert.deepEqual(await network().askForAll('client', address, 30_080, one), [at.node]);
    }
  });

  test('node ports answer at the allowed addresses only, with and without endpoints', async () => {
    const nodePortAddresses = [at.node2Range];
    await network().serve([web], endpoints, { nodePortAddresses });
    assert.deepEqual(await network().askForAll('client', at.node2, 30_080, one), [at.node]);
    assert.deepEqual(await network().ask('client', at.node, 30_080), REFUSED, 'nobody listens there');
    await network().at('node').listen('tcp', at.node, 30_081);
    const empty = service({ name: 'empty', clusterIPs: [at.other], ports: [{ port: 80, nodePort: 30_081 }] });
    await network().serve([empty], {}, { nodePortAddresses });
    assert.deepEqual(await network().ask('client', at.node2, 30_081), REFUSED);
    assert.deepEqual(await network().ask('client', at.node, 30_081), { server: addressPort(at.node, 30_081), client: at.client });
  });

  if (at.family === 'IPv6') {
    test('::1 never answers', async () => {
      await network().serve([web], endpoints, { localhostNodePorts: true });
      assert.deepEqual(await network().ask('node', loopback, 30_080), REFUSED);
      assert.deepEqual(await network().askForAll('node', at.node, 30_080, one), [at.node]);
    });
    return;
  }

  test('localhost answers only when it was asked for, and nobody else reaches 127/8', async () => {
    const node = network().at('node');
    const client = network().at('client');
    await network().serve([web], endpoints);
    assert.deepEqual(await network().ask('node', loopback, 30_080), REFUSED);

    const setting = '/proc/sys/net/ipv4/conf/all/route_localnet';
    await node.must('tee', [setting], '1');
    await node.listen('tcp', loopback, 9000);
    await client.must('tee', [setting], '1');
    await client.must('sh', ['-c', 'ip address del 127.0.0.1/8 dev lo; ip route add 127.0.0.1 via 169.254.1.1']);
    const intrusion = { from: at.client, ...SILENCE };
    const answer = { server: '127.0.0.1:9000', client: at.client };
    assert.deepEqual(await network().ask('client', loopback, 9000, { from: at.client }), answer, 'without the guard this is an open door');
    await node.must('tee', [setting], '0');

    await network().serve([web], endpoints, { localhostNodePorts: true });
    assert.equal((await node.must('cat', [setting])).trim(), '1');
    const intrusions = [9000, 30_080].map((number) => network().ask('client', loopback, number, intrusion));
    assert.deepEqual(await Promise.all(intrusions), [TIMEOUT, TIMEOUT]);
    assert.deepEqual(await network().ask('node', loopback, 9000), { server: '127.0.0.1:9000', client: loopback });
    assert.deepEqual(await network().askForAll('node', loopback, 30_080, one), [at.node]);

    await network().serve([web], endpoints);
    assert.equal((await node.must('cat', [setting])).trim(), '0');
    assert.deepEqual(await network().ask('node', loopback, 30_080), REFUSED);
  });
});
