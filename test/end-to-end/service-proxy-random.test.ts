// Random services, every door of each from every place: packets fare as a short description of the field's rules says, in whatever
// combination features come.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { addressPort } from '../../shared/iptables/addresses.ts';
import { cases } from '../fixtures/cases.ts';
import { endpoint, port, service, subset, terminating, virtualIP } from '../functions/iptables/cluster.ts';
import type { Reply } from './namespace.ts';
import { type Addresses, onNodes, REFUSED, SILENCE, TIMEOUT } from './service-network.ts';

const ASKERS = ['near', 'idle', 'far', 'client', 'node'] as const;
type Asker = (typeof ASKERS)[number];
type Door = 'web' | 'external' | 'balancer' | 'nodePort';
type PodState = 'ready' | 'terminating' | 'absent';

interface Drawn {
  readonly near: PodState;
  readonly far: PodState;
  readonly internal: 'Cluster' | 'Local';
  readonly external: 'Cluster' | 'Local';
  readonly ranges: 'none' | 'client' | 'node' | 'bad';
  readonly affinity: boolean;
  readonly podsKnown: boolean;
  readonly masqueradeAll: boolean;
}

const policy = fc.constantFrom('Cluster' as const, 'Local' as const);
const podState = fc.constantFrom<PodState>('ready', 'ready', 'terminating', 'absent');
const drawn: fc.Arbitrary<Drawn> = fc.record({
  near: podState,
  far: podState,
  internal: policy,
  external: policy,
  ranges: fc.constantFrom('none' as const, 'client' as const, 'node' as const, 'bad' as const),
  affinity: fc.boolean(),
  podsKnown: fc.boolean(),
  masqueradeAll: fc.boolean(),
});

/** What may answer, and the source that it may see. */
function expected(at: Addresses, given: Drawn, asker: Asker, door: Door): Reply[] {
  const inState = (state: PodState): ('near' | 'far')[] => (['near', 'far'] as const).filter((pod) => given[pod] === state);
  const cluster = inState('ready').length > 0 ? inState('ready') : inState('terminating');
  const local = given.near === 'absent' ? [] : (['near'] as const);
  if (cluster.length === 0) return [REFUSED];

  const isPod = given.podsKnown && asker !== 'client' && asker !== 'node';
  const answers = (pods: readonly ('near' | 'far')[], masqueraded: boolean): Reply[] =>
    pods.length === 0
      ? [TIMEOUT]
      : pods.map((pod) => ({ server: addressPort(at[pod], 80), client: masqueraded || pod === asker ? at.node : at[asker] }));

  if (door === 'web') {
    const masqueraded = given.masqueradeAll || (given.podsKnown && !isPod);
    return answers(given.internal === 'Local' ? local : cluster, masqueraded);
  }
  if (door === 'balancer' && given.ranges !== 'none' && given.ranges !== asker) return [TIMEOUT];
  if (given.external === 'Cluster') return answers(cluster, true);
  if (isPod) return answers(cluster, false);
  return asker === 'node' ? answers(cluster, true) : answers(local, false);
}

onNodes('random services', (network, at) => {
  const doors: Readonly<Record<Door, readonly [string, number]>> = {
    web: [at.web, 80],
    external: [at.external, 80],
    balancer: [at.balancer, 80],
    nodePort: [at.node, 30_080],
  };
  const ranges = { none: [], client: [at.clientRange], node: [at.nodeRange], bad: ['anybody'] };

  async function serve(given: Drawn): Promise<void> {
    const endpoints = (['near', 'far'] as const).flatMap((pod) => {
      const place = { node: pod === 'near' ? 'n1' : 'n2' };
      if (given[pod] === 'absent') return [];
      return [given[pod] === 'ready' ? endpoint(at[pod], place) : terminating(at[pod], place)];
    });
    const random = service({
      type: 'LoadBalancer',
      clusterIPs: [at.web],
      externalIPs: [at.external],
      loadBalancerIngress: [virtualIP(at.balancer)],
      loadBalancerSourceRanges: ranges[given.ranges],
      internalTrafficPolicy: given.internal,
      externalTrafficPolicy: given.external,
      sessionAffinity: given.affinity ? 'ClientIP' : 'None',
      ports: [{ name: 'p80', port: 80, nodePort: 30_080 }],
    });
    const subsets = { 'ns1/svc1': [subset([port('p80', 80)], endpoints, at.family)] };
    await network().serve([random], subsets, {
      masqueradeAll: given.masqueradeAll,
      ...(given.podsKnown ? {} : { clusterCIDRs: [] }),
    });
  }

  test('every door from every place', async () => {
    const questions = ASKERS.flatMap((asker) => (['web', 'external', 'balancer', 'nodePort'] as const).map((door) => ({ asker, door })));
    await fc.assert(
      fc.asyncProperty(drawn, async (given) => {
        await serve(given);
        const replies = await Promise.all(
          questions.map(async ({ asker, door }) => {
            const allowed = expected(at, given, asker, door);
            // Refusals of external addresses are for who comes to the node; its own packets go where the network leads them.
            if (allowed.includes(REFUSED) && asker === 'node' && door !== 'web') return null;
            const reply = await network().ask(asker, ...doors[door], allowed.includes(TIMEOUT) ? SILENCE : {});
            return allowed.some((one) => JSON.stringify(one) === JSON.stringify(reply)) ? null : { asker, door, reply, allowed };
          }),
        );
        assert.deepEqual(
          replies.filter((wrong) => wrong !== null),
          [],
        );
      }),
      { numRuns: cases(5, 60), endOnFailure: true },
    );
  });
});
