// Which endpoints answer: none, those that terminate, those that topology hints name, the one that a client had before.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { addressPort } from '../../shared/iptables/addresses.ts';
import type { Endpoint } from '../../shared/endpoint.ts';
import { endpoint, port, service, subset, terminating, virtualIP } from '../functions/iptables/cluster.ts';
import { onNodes, REFUSED, UDP } from './service-network.ts';

onNodes('endpoints', (network, at) => {
  const near = addressPort(at.near, 80);
  const far = addressPort(at.far, 80);
  const web = service({ clusterIPs: [at.web] });
  const served = (...endpoints: Endpoint[]) => ({ 'ns1/svc1': [subset([port('p80', 80)], endpoints, at.family)] });
  const nearWith = (changes: Partial<Endpoint> = {}): Endpoint => endpoint(at.near, { node: 'n1', ...changes });
  const farWith = (changes: Partial<Endpoint> = {}): Endpoint => endpoint(at.far, { node: 'n2', ...changes });

  /** Only this server answers, however often one asks. */
  async function alwaysAnswers(server: string): Promise<void> {
    for (let again = 0; again < 16; again++) {
      assert.deepEqual(await network().ask('idle', at.web, 80), { server, client: at.idle });
    }
  }

  test('without endpoints clients are told, over TCP and UDP, at every address; without the service nothing is done', async () => {
    const empty = service({
      type: 'LoadBalancer',
      clusterIPs: [at.web],
      externalIPs: [at.external],
      loadBalancerIngress: [virtualIP(at.balancer), virtualIP(at.zero, 'Proxy')],
      externalTrafficPolicy: 'Local',
      ports: [
        { name: 'p80', port: 80, nodePort: 30_080 },
        { name: 'dns', port: 53, protocol: 'UDP', nodePort: 30_053 },
      ],
    });
    await network().serve([empty], {});
    const questions = [
      ['idle', at.web, 80, {}],
      ['idle', at.web, 53, UDP],
      ['node', at.web, 80, {}],
      ['client', at.external, 80, {}],
      ['client', at.external, 53, UDP],
      ['client', at.balancer, 80, {}],
      ['client', at.balancer, 53, UDP],
      ['client', at.node, 30_080, {}],
      ['client', at.node, 30_053, UDP],
    ] as const;
    const replies = await Promise.all(questions.map(([place, address, number, more]) => network().ask(place, address, number, more)));
    assert.deepEqual(
      replies,
      questions.map(() => REFUSED),
    );
    assert.deepEqual(await network().ask('client', at.zero, 80), { server: addressPort(at.zero, 80), client: at.client });
    await network().serve([], {});
    assert.deepEqual(await network().ask('client', at.external, 80), { server: addressPort(at.external, 80), client: at.client });
  });

  test('endpoints that terminate serve while none is ready, here or elsewhere', async () => {
    await network().serve([web], served(terminating(at.near, { node: 'n1' }), endpoint('10.180.0.99', { ready: false, serving: false })));
    await alwaysAnswers(near);
    await network().serve([web], served(terminating(at.near, { node: 'n1' }), farWith()));
    await alwaysAnswers(far);
    const local = { ...web, internalTrafficPolicy: 'Local' };
    await network().serve([local], served(terminating(at.near, { node: 'n1' }), farWith()));
    await alwaysAnswers(near);
  });

  test('hints for the node and hints for its zone choose endpoints, when every ready one carries hints', async () => {
    const hints = (nodes: readonly string[], zones: readonly string[]) => ({ hintNodes: nodes, hintZones: zones });
    await network().serve([web], served(nearWith(hints([], ['z2'])), farWith(hints([], ['z1']))));
    await alwaysAnswers(far);
    await network().serve([web], served(nearWith(hints(['n1'], ['z2'])), farWith(hints(['n2'], ['z1']))));
    await alwaysAnswers(near);
    await network().serve([web], served(nearWith(hints(['n1'], ['z2'])), farWith(hints([], ['z1']))));
    await alwaysAnswers(far);
    await network().serve([web], served(nearWith(hints([], ['z1'])), farWith()));
    await network().askForAll('idle', at.web, 80, [near, far]);
    await network().serve([web], served(nearWith(hints([], ['z8'])), farWith(hints([], ['z9']))));
    await network().askForAll('idle', at.web, 80, [near, far]);
  });

  test('trafficDistribution acts through the hints that the cluster derives from it, and not by itself', async () => {
    const close = { ...web, trafficDistribution: 'PreferClose' };
    await network().serve([close], served(nearWith({ zone: 'z1' }), farWith({ zone: 'z2' })));
    await network().askForAll('idle', at.web, 80, [near, far]);
    await network().serve([close], served(nearWith({ hintZones: ['z1'] }), farWith({ hintZones: ['z2'] })));
    await alwaysAnswers(near);
  });

  test('hints do not bind the policy Local, nor endpoints that terminate', async () => {
    const local = { ...web, internalTrafficPolicy: 'Local' };
    await network().serve([local], served(nearWith({ hintZones: ['z2'] }), farWith({ hintZones: ['z1'] })));
    await alwaysAnswers(near);
    await network().serve([web], served(terminating(at.near, { node: 'n1', hintZones: ['z2'] })));
    await alwaysAnswers(near);
  });

  test('a client keeps its endpoint under affinity, at every address, until the timeout', async () => {
    const sticky = service({
      clusterIPs: [at.web],
      externalIPs: [at.external],
      sessionAffinity: 'ClientIP',
      affinityTimeout: 600,
      ports: [{ name: 'p80', port: 80, nodePort: 30_080 }],
    });
    await network().serve([sticky], served(nearWith(), farWith()));
    const first = await network().ask('client', at.web, 80);
    assert.ok('server' in first);
    const doors: readonly (readonly [string, number])[] = [
      [at.web, 80],
      [at.external, 80],
      [at.node, 30_080],
    ];
    for (const door of doors) {
      for (let again = 0; again < 12; again++) assert.deepEqual(await network().ask('client', ...door), first);
    }

    await network().serve([{ ...sticky, affinityTimeout: 1 }], served(nearWith(), farWith()));
    for (let attempt = 0; ; attempt++) {
      assert.ok(attempt < 30, 'by chance alone this happens once in 2^30');
      await delay(1_100);
      const reply = await network().ask('client', at.web, 80);
      if ('server' in reply && reply.server !== first.server) break;
    }
  });
});
