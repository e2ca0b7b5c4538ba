// From any cluster to any other, by what changed: the node holds exactly the rules that loading the other one in full leaves.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { ClusterState, Service } from '../../../functions/cluster/objects.ts';
import type { IptablesOptions } from '../../../functions/options.ts';
import { digestOf } from '../../../shared/digest.ts';
import type { Endpoint, EndpointSubset } from '../../../shared/endpoint.ts';
import { iptablesRole } from '../../../sidecar/iptables/apply.ts';
import { BACK_ENDS, type BackEnd } from '../../../sidecar/iptables/tool.ts';
import { Namespace, namespacesMissing } from '../../end-to-end/namespace.ts';
import { cases } from '../../fixtures/cases.ts';
import { endpointsOf, node, port, proxyFiles, service, state, subset, virtualIP } from '../../functions/iptables/cluster.ts';
import { never, quiet, removeNamespace, runIn, savedRules, settleOn } from './rulesets.ts';

const skip = await namespacesMissing();

const RUNS: Readonly<Record<BackEnd, number>> = { nft: cases(40, 300), legacy: cases(10, 60) };

interface Cluster {
  readonly cluster: ClusterState;
  readonly options: Partial<IptablesOptions>;
}

type Served = readonly [service: Service, subsets: readonly EndpointSubset[]];

const few = fc.integer({ min: 1, max: 6 });
const rarely = fc.boolean().chain((likely) => (likely ? fc.boolean() : fc.constant(false)));
const policy = fc.constantFrom('Cluster', 'Local');

const PORTS = [
  { name: 'web', port: 80, nodePort: 0 },
  { name: 'dns', port: 53, protocol: 'UDP', nodePort: 0 },
  { name: 'call', port: 2905, protocol: 'SCTP', nodePort: 0 },
] as const;
const TARGETS = [port('web', 8080), port('dns', 5353, 'UDP'), port('call', 2905, 'SCTP')];

const someEndpoint: fc.Arbitrary<Omit<Endpoint, 'address'> & { readonly last: number }> = fc.record({
  last: few,
  ready: fc.boolean(),
  serving: fc.constant(true),
  terminating: fc.boolean(),
  node: fc.constantFrom('n1', 'n2', null),
  zone: fc.constant(null),
  hintZones: fc.constantFrom([], ['z1'], ['z2']),
  hintNodes: fc.constantFrom([], [], ['n1'], ['n2']),
  pod: fc.constant(null),
});

const served: fc.Arbitrary<Served> = fc
  .record({
    name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g'),
    created: few,
    four: fc.boolean(),
    six: fc.boolean(),
    last: few,
    ports: fc.uniqueArray(fc.constantFrom(0, 1, 2), { minLength: 1 }),
    nodePort: rarely,
    external: rarely,
    balancer: fc.constantFrom(null, null, 'VIP', 'Proxy'),
    ranges: fc.constantFrom([], ['203.0.113.0/24'], ['192.168.0.0/16', 'fd00:192::/64'], ['bad']),
    externalTrafficPolicy: policy,
    internalTrafficPolicy: policy,
    affinity: fc.constantFrom(null, null, 60, 10_800),
    endpoints: fc.uniqueArray(someEndpoint, { maxLength: 5, selector: ({ last }) => last }),
    halves: fc.boolean(),
  })
  .map((drawn): Served => {
    const { name, created, last, external, balancer, ranges, affinity } = drawn;
    const families = drawn.six ? (drawn.four ? (['IPv4', 'IPv6'] as const) : (['IPv6'] as const)) : (['IPv4'] as const);
    const addressed = service({
      name,
      created,
      type: balancer === null ? 'NodePort' : 'LoadBalancer',
      clusterIPs: families.map((family) => (family === 'IPv4' ? `172.30.0.${last}` : `fd00:30::${last}`)),
      externalIPs: external ? [`198.51.100.${last}`, `fd00:198::${last}`] : [],
      loadBalancerIngress: balancer === null ? [] : [virtualIP(`198.51.101.${last}`, balancer)],
      loadBalancerSourceRanges: ranges,
      externalTrafficPolicy: drawn.externalTrafficPolicy,
      internalTrafficPolicy: drawn.internalTrafficPolicy,
      healthCheckNodePort: 32_000 + last,
      sessionAffinity: affinity === null ? 'None' : 'ClientIP',
      affinityTimeout: affinity ?? 10_800,
      ports: drawn.ports.map((index) => ({ ...PORTS[index], nodePort: drawn.nodePort ? 30_060 + last * 3 + index : 0 })),
    });
    const subsets = families.map((family) =>
      subset(
        drawn.halves ? TARGETS.slice(0, 1) : TARGETS,
        drawn.endpoints.map(({ last: pod, ...rest }) => ({ ...rest, address: family === 'IPv4' ? `10.180.0.${pod}` : `fd00:180::${pod}` })),
        family,
      ),
    );
    return [addressed, subsets];
  });

const options: fc.Arbitrary<Partial<IptablesOptions>> = fc.record({
  clusterCIDRs: fc.constantFrom(
    ['10.0.0.0/8', 'fd00:180::/32'],
    ['10.0.0.0/8', 'fd00:180::/32'],
    null,
    [],
    ['10.0.0.0/8', '10.9.0.0/16', 'fd00::/8'],
  ),
  masqueradeAll: rarely,
  nodePortAddresses: fc.constantFrom([], [], ['192.168.0.0/24'], ['0.0.0.0/0', 'fd00:192::/64']),
  localhostNodePorts: rarely,
});

const cluster: fc.Arbitrary<Cluster> = fc
  .record({
    all: fc.uniqueArray(served, { maxLength: 7, selector: ([{ meta }]) => meta.name }),
    zone: fc.constantFrom('z1', 'z2'),
    known: fc.integer({ min: 0, max: 9 }).map((number) => number > 0),
    options,
  })
  .map((drawn) => clusterOf(drawn.all, drawn.zone, drawn.known, drawn.options));

function clusterOf(all: readonly Served[], zone: string, known: boolean, given: Partial<IptablesOptions>): Cluster {
  const here = node('n1', {
    labels: { 'topology.kubernetes.io/zone': zone },
    addresses: ['192.168.0.2', 'fd00:192::2'].map((address) => ({ type: 'InternalIP', address })),
    podCIDRs: ['10.180.0.0/24', 'fd00:180::/64'],
  });
  const endpoints = endpointsOf(Object.fromEntries(all.map(([{ meta }, subsets]) => [`ns1/${meta.name}`, subsets])));
  return {
    cluster: state(
      all.map(([found]) => found),
      endpoints,
      known ? [here] : [],
    ),
    options: given,
  };
}

/** Mostly the second is the first with a few services of it changed, as clusters are; sometimes it is another one. */
const pair: fc.Arbitrary<readonly [Cluster, Cluster]> = fc.oneof(
  fc.tuple(cluster, cluster),
  fc
    .record({
      kept: fc.uniqueArray(served, { maxLength: 7, selector: ([{ meta }]) => meta.name }),
      changed: fc.array(served, { maxLength: 2 }),
      options,
    })
    .map(({ kept, changed, options: given }) => {
      const others = kept.filter(([{ meta }]) => !changed.some(([other]) => other.meta.name === meta.name));
      const unique = [...new Map(changed.map((one) => [one[0].meta.name, one])).values()];
      return [clusterOf(kept, 'z1', true, given), clusterOf([...others, ...unique], 'z1', true, given)] as const;
    }),
);

interface Held {
  readonly saved: string;
  readonly hows: readonly (string | null)[];
  readonly repaired: readonly string[];
}

/** What a new node holds after a sidecar has applied these clusters one after the other. */
async function applyInNew(backEnd: BackEnd, sequence: readonly Cluster[]): Promise<Held> {
  const namespace = await Namespace.create(`clusters-${backEnd}`);
  const role = iptablesRole({ node: 'n1', logger: quiet, run: runIn(namespace) });
  try {
    if (backEnd === 'legacy') await settleOn(namespace, backEnd);
    const hows: (string | null)[] = [];
    for (const [index, { cluster: objects, options: given }] of sequence.entries()) {
      const { files } = proxyFiles(objects, given);
      const target = { version: index + 1, sequence: index + 1, content: digestOf(JSON.stringify([...files])), movedAt: 0, files };
      const { outcome, how, message } = await role.apply(target, never);
      assert.equal(outcome, 'applied', message);
      hows.push(how);
    }
    const { repaired } = await role.repairDrift(never);
    return { saved: await savedRules(namespace, backEnd), hows, repaired };
  } finally {
    await role.close();
    await removeNamespace(namespace);
  }
}

async function assertSame(backEnd: BackEnd, [a, b]: readonly [Cluster, Cluster]): Promise<void> {
  const nodes = [applyInNew(backEnd, [a, b]), applyInNew(backEnd, [b])] as const;
  // Both are removed before the failure of one is told.
  await Promise.allSettled(nodes);
  const [stepped, loaded] = await Promise.all(nodes);
  assert.equal(stepped.saved, loaded.saved);
  assert.equal(stepped.hows[0], 'restore');
  assert.notEqual(stepped.hows[1], 'restore', 'what changed is written, and not all');
  assert.deepEqual([stepped.repaired, loaded.repaired], [[], []]);
}

for (const backEnd of BACK_ENDS) {
  test(`${backEnd}: ${RUNS[backEnd]} random pairs of clusters`, { skip }, async () => {
    await fc.assert(
      fc.asyncProperty(pair, (clusters) => assertSame(backEnd, clusters)),
      { numRuns: RUNS[backEnd], endOnFailure: true },
    );
  });
}

test('into and out of a large cluster, whose comments are sparse', { skip }, async () => {
  const many = Array.from({ length: 210 }, (_, index): Served => {
    const endpoints = [1, 2, 3, 4, 5].map((n): Endpoint => ({ ...ENDPOINT, address: `10.${n}.0.${index}` }));
    return [
      service({ name: `s${index}`, clusterIPs: [`172.30.${index % 2}.${index}`], ports: [{ name: 'web', port: 80 }] }),
      [subset(TARGETS, endpoints)],
    ];
  });
  const [large, small] = [clusterOf(many, 'z1', true, {}), clusterOf(many.slice(0, 9), 'z1', true, {})];
  await assertSame('nft', [small, large]);
  await assertSame('nft', [large, small]);
});

const ENDPOINT = { ready: true, serving: true, terminating: false, node: null, zone: null, hintZones: [], hintNodes: [], pod: null };
