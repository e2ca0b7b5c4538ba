import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { admitServices } from '../../../functions/iptables/admit.ts';
import { buildProxy, type ProxyModel } from '../../../functions/iptables/build.ts';
import { proxyConfigurationFiles } from '../../../functions/iptables/configuration.ts';
import type { ClusterNode } from '../../../functions/cluster/objects.ts';
import type { IptablesOptions } from '../../../functions/options.ts';
import type { EndpointSubset } from '../../../shared/endpoint.ts';
import { endpoint, endpointsOf, node, OPTIONS, port, proxyFiles, service, state, subset, terminating } from './cluster.ts';
import { largeCluster } from './large-cluster.ts';
import { cases } from '../../fixtures/cases.ts';

function built(subsets: readonly EndpointSubset[], nodes: readonly ClusterNode[] = [], options: Partial<IptablesOptions> = {}): ProxyModel {
  const cluster = state([service()], endpointsOf({ 'ns1/svc1': subsets }), nodes);
  return buildProxy(admitServices(cluster, { ...OPTIONS, ...options }), cluster.endpoints, nodes);
}

const addresses = ({ services }: ProxyModel): string[] => services.flatMap((each) => each.endpoints.map(({ address }) => address));

describe('endpoints', () => {
  test('those that can serve are kept: ready, or serving while they terminate', () => {
    const model = built([
      subset(
        [port('p80', 8080)],
        [
          endpoint('10.0.0.1'),
          terminating('10.0.0.2'),
          endpoint('10.0.0.3', { ready: false }),
          terminating('10.0.0.4', { serving: false }),
        ],
      ),
    ]);
    assert.deepEqual(addresses(model), ['10.0.0.1', '10.0.0.2']);
    assert.deepEqual(
      model.services[0]?.endpoints.map(({ ready, ports }) => [ready, ports]),
      [
        [true, { p80: 8080 }],
        [false, { p80: 8080 }],
      ],
    );
  });

  test('a port needs the name and the protocol of the service’s', () => {
    assert.deepEqual(
      addresses(built([subset([port('p80', 80, 'UDP')], [endpoint('10.0.0.1')]), subset([port('http', 80)], [endpoint('10.0.0.2')])])),
      [],
    );
  });

  test('addresses that no pod has are left out and reported once', () => {
    const model = built([
      subset([port('p80', 80)], [endpoint('127.0.0.1'), endpoint('169.254.169.254'), endpoint('bad\n'), endpoint('10.0.0.1')]),
      subset([port('p80', 80)], [endpoint('fd00::1')], 'IPv6'),
    ]);
    assert.deepEqual(addresses(model), ['10.0.0.1']);
    assert.deepEqual(
      model.rejections.map(({ kind, name, field, reason }) => [kind, name, field, reason]),
      [['Service', 'svc1', 'endpoints', 'EndpointAddressNotAllowed']],
    );
    assert.match(model.rejections[0]?.message ?? '', /"127\.0\.0\.1", "169\.254\.169\.254", "bad\\n"/);
  });

  test('where pods on loopback addresses are expected they are left out all the same, and nothing is said of them', () => {
    const subsets = [subset([port('p80', 80)], [endpoint('127.0.0.1'), endpoint('169.254.169.254')])];
    const cluster = state([service()], endpointsOf({ 'ns1/svc1': subsets }), []);
    const model = buildProxy(admitServices(cluster, OPTIONS), cluster.endpoints, [], true);
    assert.deepEqual(addresses(model), []);
    assert.deepEqual(
      model.rejections.map(({ message }) => /127\.0|169\.254/.exec(message)?.[0]),
      ['169.254'],
    );
  });
});

describe('pod CIDRs', () => {
  const nodes = [
    node('a', { podCIDRs: ['10.180.1.0/24', 'fd00:1::/64'] }),
    node('b', { podCIDRs: ['10.180.000.0/24', 'nonsense'] }),
    node('c', { podCIDRs: ['10.180.4.0/24'] }),
  ];

  test('without the option they are the nodes’, joined', () => {
    const model = built([], nodes, { clusterCIDRs: null });
    assert.deepEqual(model.options.clusterCIDRs, ['10.180.0.0/23', '10.180.4.0/24', 'fd00:1::/64']);
    assert.deepEqual(
      model.rejections.map(({ kind, name, field, reason }) => [kind, name, field, reason]),
      [['Node', 'b', 'spec.podCIDRs', 'InvalidCIDR']],
    );
  });

  test('the option wins over the nodes; an empty one means unknown', () => {
    assert.deepEqual(built([], nodes, { clusterCIDRs: ['10.0.0.0/8'] }).options.clusterCIDRs, ['10.0.0.0/8']);
    assert.deepEqual(built([], nodes, { clusterCIDRs: [] }).options.clusterCIDRs, []);
  });
});

test('nodes have their addresses and zone', () => {
  const given = node('n1', {
    labels: { 'topology.kubernetes.io/zone': 'z1' },
    addresses: [
      { type: 'InternalIP', address: '192.168.000.2' },
      { type: 'ExternalIP', address: '198.51.100.7' },
      { type: 'Hostname', address: 'n1.example' },
      { type: 'InternalIP', address: 'bad' },
    ],
  });
  const { nodes, rejections } = built([], [given]);
  assert.deepEqual(nodes, [{ name: 'n1', internalIPs: ['192.168.0.2'], externalIPs: ['198.51.100.7'], zone: 'z1' }]);
  assert.deepEqual(
    rejections.map(({ field, reason }) => [field, reason]),
    [['status.addresses', 'InvalidAddress']],
  );
});

test('the same cluster in any order gives the same files', () => {
  const cluster = largeCluster(25);
  const expected = [...proxyFiles(cluster, { clusterCIDRs: null }).files];
  const configuration = [...proxyConfigurationFiles(admitServices(cluster, OPTIONS))];
  const shuffled = <T>(items: readonly T[]): fc.Arbitrary<T[]> => fc.shuffledSubarray([...items], { minLength: items.length });
  const subsetsInAnyOrder = [...cluster.endpoints].map(([key, { namespace, name, subsets }]) =>
    shuffled(subsets)
      .chain((some) => fc.tuple(...some.map((each) => shuffled(each.endpoints).map((endpoints) => ({ ...each, endpoints })))))
      .map((some) => [key, { namespace, name, subsets: some }] as const),
  );
  fc.assert(
    fc.property(
      shuffled(cluster.services),
      shuffled(cluster.nodes),
      fc.tuple(...subsetsInAnyOrder).chain((entries) => shuffled(entries)),
      (services, nodes, endpoints) => {
        const other = { ...cluster, services, nodes, endpoints: new Map(endpoints) };
        assert.deepEqual([...proxyFiles(other, { clusterCIDRs: null }).files], expected);
        assert.deepEqual([...proxyConfigurationFiles(admitServices(other, OPTIONS))], configuration);
      },
    ),
    { numRuns: cases(25, 500) },
  );
});
