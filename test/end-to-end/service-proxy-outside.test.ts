// Node ports, external IPs and load-balancer IPs: what comes from outside, from pods and from the node itself, under both traffic
// policies and under source ranges.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressPort } from '../../shared/iptables/addresses.ts';
import { endpoint, port, service, subset, terminating, virtualIP } from '../functions/iptables/cluster.ts';
import { onNodes, SILENCE, TIMEOUT, UDP } from './service-network.ts';

onNodes('traffic from outside', (network, at) => {
  const one = [addressPort(at.near, 80)];
  const all = [addressPort(at.near, 80), addressPort(at.far, 80)];
  const doors: readonly (readonly [string, number])[] = [
    [at.external, 80],
    [at.balancer, 80],
    [at.node, 30_080],
  ];
  const near = endpoint(at.near, { node: 'n1' });
  const far = endpoint(at.far, { node: 'n2' });
  const ports = [port('p80', 80), port('dns', 53, 'UDP')];
  const served = (...endpoints: (typeof near)[]) => ({ 'ns1/svc1': [subset(ports, endpoints, at.family)] });
  const web = service({
    type: 'LoadBalancer',
    clusterIPs: [at.web],
    externalIPs: [at.external],
    loadBalancerIngress: [virtualIP(at.balancer)],
    ports: [
      { name: 'p80', port: 80, nodePort: 30_080 },
      { name: 'dns', port: 53, protocol: 'UDP', nodePort: 30_053 },
    ],
  });
  const local = { ...web, externalTrafficPolicy: 'Local', healthCheckNodePort: 32_001 };

  test('each kind of address leads to all endpoints, masqueraded, from everywhere', async () => {
    await network().serve([web], served(near, far));
    for (const place of ['client', 'idle', 'node'] as const) {
      for (const door of [...doors, [at.node2, 30_080] as const])
        assert.deepEqual(await network().askForAll(place, ...door, all), [at.node], `${place} ${door.join(' ')}`);
    }
    const dns = [addressPort(at.near, 53), addressPort(at.far, 53)];
    for (const [address, number] of doors) {
      assert.deepEqual(await network().askForAll('client', address, number === 80 ? 53 : 30_053, dns, UDP), [at.node]);
    }
    await network().serve([{ ...web, loadBalancerIngress: [virtualIP(at.balancer, 'Proxy')] }], served(near, far));
    assert.deepEqual(
      await network().ask('client', at.balancer, 80),
      { server: addressPort(at.balancer, 80), client: at.client },
      'what a load balancer does itself is not touched',
    );
  });

  test('under the external policy Local the source is kept, and only endpoints of the node are used', async () => {
    await network().serve([local], served(near, far));
    for (const door of doors) {
      for (let again = 0; again < 8; again++) {
        assert.deepEqual(await network().ask('client', ...door), { server: one[0], client: at.client });
      }
    }
    assert.deepEqual(await network().askForAll('idle', at.external, 80, all), [at.idle], 'pods reach all endpoints');
    const hairpin = await network().askForAll('near', at.external, 80, all);
    assert.deepEqual(hairpin.sort(), [at.near, at.node].sort(), 'an endpoint that reaches itself is masqueraded');
    assert.deepEqual(await network().askForAll('node', at.external, 80, all), [at.node], 'the node reaches all endpoints, masqueraded');
    assert.deepEqual(await network().askForAll('node', at.node, 30_080, all), [at.node]);
    assert.deepEqual(await network().askForAll('idle', at.web, 80, all), [at.idle], 'the internal policy is another one');
  });

  test('masqueradeAll is not about external clients of a Local service', async () => {
    await network().serve([local], served(near, far), { masqueradeAll: true });
    assert.deepEqual(await network().askForAll('client', at.node, 30_080, one), [at.client]);
  });

  test('under the external policy Local without an endpoint of the node there is silence outside, and pods are served', async () => {
    await network().serve([local], served(far));
    const replies = await Promise.all(doors.map((door) => network().ask('client', ...door, SILENCE)));
    assert.deepEqual(replies, [TIMEOUT, TIMEOUT, TIMEOUT]);
    assert.deepEqual(await network().askForAll('idle', at.external, 80, [addressPort(at.far, 80)]), [at.idle]);
    assert.deepEqual(await network().askForAll('node', at.node, 30_080, [addressPort(at.far, 80)]), [at.node]);
  });

  test('under the external policy Local an endpoint of the node that terminates serves while no other of the node is ready', async () => {
    await network().serve([local], served(terminating(at.near, { node: 'n1' }), far));
    for (const door of doors) assert.deepEqual(await network().askForAll('client', ...door, one), [at.client]);
    assert.deepEqual(await network().askForAll('idle', at.external, 80, [addressPort(at.far, 80)]), [at.idle]);
  });

  const guarded = { ...web, loadBalancerSourceRanges: [` ${at.clientRange}`] };
  const stranger = { from: at.stranger };

  test('who is in a source range passes, others meet silence, and node ports are not guarded', async () => {
    await network().serve([guarded], served(near));
    assert.deepEqual(await network().askForAll('client', at.balancer, 80, one), [at.node]);
    const refused = await Promise.all([
      network().ask('client', at.balancer, 80, { ...stranger, ...SILENCE }),
      network().ask('client', at.balancer, 53, { ...UDP, ...stranger, ...SILENCE }),
      network().ask('idle', at.balancer, 80, SILENCE),
      network().ask('node', at.balancer, 80, SILENCE),
    ]);
    assert.deepEqual(refused, [TIMEOUT, TIMEOUT, TIMEOUT, TIMEOUT]);
    assert.deepEqual(await network().ask('client', at.node, 30_080, stranger), { server: one[0], client: at.node });
    assert.deepEqual(await network().ask('client', at.external, 80, stranger), { server: one[0], client: at.node });
  });

  test('a range that holds the node lets the node in, also when the load-balancer IP is an address of its own', async () => {
    await network().serve([{ ...guarded, loadBalancerSourceRanges: [at.nodeRange] }], served(near));
    assert.deepEqual(await network().askForAll('node', at.balancer, 80, one), [at.node]);
    assert.deepEqual(await network().ask('client', at.balancer, 80, SILENCE), TIMEOUT);
    const length = at.family === 'IPv4' ? 32 : 128;
    const own = ['dev', 'lo', ...(at.family === 'IPv4' ? [] : ['nodad'])];
    const node = network().at('node');
    await node.ip('address', 'add', `${at.balancer}/${length}`, ...own);
    try {
      // Masqueraded, but as which of its own addresses is the node's choice.
      await network().askForAll('node', at.balancer, 80, one, { from: at.balancer });
      await network().serve([guarded], served(near));
      assert.deepEqual(await network().ask('node', at.balancer, 80, { from: at.balancer, ...SILENCE }), TIMEOUT);
    } finally {
      await node.ip('address', 'del', `${at.balancer}/${length}`, 'dev', 'lo');
    }
  });

  test('ranges under the external policy Local keep the source of those whom they let in', async () => {
    await network().serve([{ ...local, loadBalancerSourceRanges: [at.clientRange] }], served(near, far));
    assert.deepEqual(await network().askForAll('client', at.balancer, 80, one), [at.client]);
    assert.deepEqual(await network().ask('client', at.balancer, 80, { ...stranger, ...SILENCE }), TIMEOUT);
  });

  test('health checks, and traffic that is masqueraded or answers, pass a node that drops all else', async () => {
    const other = service({ name: 'svc2', clusterIPs: [at.other], externalIPs: [at.zero] });
    await network().serve([local, other], { ...served(near, far), 'ns1/svc2': [subset([port('p80', 80)], [near], at.family)] });
    const node = network().at('node');
    await Promise.all([node.listen('tcp', at.node, 32_001), node.listen('tcp', at.node, 32_002)]);
    const policy = async (verdict: string): Promise<void> => {
      const tool = `${at.family === 'IPv4' ? 'iptables' : 'ip6tables'}-${network().backEnd}`;
      for (const chain of ['INPUT', 'FORWARD']) await node.must(tool, ['-w', '10', '-P', chain, verdict]);
      // Over IPv6 neighbours find each other by packets that pass INPUT.
      if (at.family === 'IPv6')
        await node.must(tool, ['-w', '10', verdict === 'DROP' ? '-A' : '-D', 'INPUT', '-p', 'icmpv6', '-j', 'ACCEPT']);
    };
    await policy('DROP');
    try {
      assert.deepEqual(await network().ask('client', at.node, 32_001), { server: addressPort(at.node, 32_001), client: at.client });
      assert.deepEqual(await network().askForAll('client', at.zero, 80, one), [at.node]);
      const dropped = [network().ask('client', at.node, 32_002, SILENCE), network().ask('client', at.near, 80, SILENCE)];
      assert.deepEqual(await Promise.all(dropped), [TIMEOUT, TIMEOUT]);
    } finally {
      await policy('ACCEPT');
    }
  });
});
