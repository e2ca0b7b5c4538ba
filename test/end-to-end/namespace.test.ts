import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Namespace, namespacesMissing } from './namespace.ts';

const skip = await namespacesMissing();

test('peers reach each other through their node with their own addresses', { skip }, async (t) => {
  const [node, pod, client] = await Promise.all([Namespace.create('node'), Namespace.create('pod'), Namespace.create('client')]);
  t.after(() => Promise.all([node.close(), pod.close(), client.close()]));
  await node.becomeNode('192.168.0.2', 'fd00:192::2');
  await node.linkPeer(pod, '10.180.0.1', 'fd00:180::1');
  await node.linkPeer(client, '203.0.113.2', 'fd00:203::2');
  await pod.listen('tcp', '10.180.0.1', 80);
  await pod.listen('udp', '10.180.0.1', 53);
  await pod.listen('tcp', 'fd00:180::1', 80);

  assert.deepEqual(await client.ask({ protocol: 'tcp', address: '10.180.0.1', port: 80 }), {
    server: '10.180.0.1:80',
    client: '203.0.113.2',
  });
  assert.deepEqual(await client.ask({ protocol: 'udp', address: '10.180.0.1', port: 53 }), {
    server: '10.180.0.1:53',
    client: '203.0.113.2',
  });
  assert.deepEqual(await client.ask({ protocol: 'tcp', address: 'fd00:180::1', port: 80 }), {
    server: '[fd00:180::1]:80',
    client: 'fd00:203::2',
  });
  assert.deepEqual(await node.ask({ protocol: 'tcp', address: '10.180.0.1', port: 80 }), {
    server: '10.180.0.1:80',
    client: '192.168.0.2',
  });
  assert.deepEqual(await client.ask({ protocol: 'tcp', address: '10.180.0.1', port: 81 }), { error: 'ECONNREFUSED' });
});
