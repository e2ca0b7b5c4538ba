// A cluster in which every feature of the service proxy occurs, in many combinations: the same one each time.

import type { ClusterState, Service } from '../../../functions/cluster/objects.ts';
import type { EndpointSubset } from '../../../shared/endpoint.ts';
import { endpoint, endpointsOf, node, port, service, state, subset, terminating, virtualIP } from './cluster.ts';

/** `count` services over three nodes in two zones; about one in seven has no endpoints. */
export function largeCluster(count: number): ClusterState {
  const services = Array.from({ length: count }, (_, index) => serviceAt(index));
  const endpoints = services.map((each, index): [string, EndpointSubset[]] => [
    `${each.meta.namespace}/${each.meta.name}`,
    subsetsAt(index),
  ]);
  return state(services, endpointsOf(Object.fromEntries(endpoints)), NODES);
}

const NODES = [0, 1, 2].map((index) =>
  node(`n${index}`, {
    labels: { 'topology.kubernetes.io/zone': `z${index % 2}` },
    addresses: [
      { type: 'InternalIP', address: `192.168.0.${index + 1}` },
      { type: 'InternalIP', address: `fd00:192::${index + 1}` },
    ],
    podCIDRs: [`10.180.${index}.0/24`, `fd00:180:${index}::/64`],
  }),
);

/** Bits of the index choose the features. */
function serviceAt(index: number): Service {
  const has = (bit: number): boolean => (index >> bit) % 2 === 1;
  const [high, low] = [index >> 8, index & 0xff];
  return service({
    namespace: `ns${index % 5}`,
    name: `svc${index}`,
    type: 'LoadBalancer',
    clusterIPs: [`172.30.${high}.${low}`, `fd00:30::${index.toString(16)}`],
    externalIPs: has(0) ? [`198.51.${high}.${low}`, `fd00:51::${index.toString(16)}`] : [],
    loadBalancerIngress: has(1) ? [virtualIP(`198.18.${high}.${low}`), virtualIP(`fd00:18::${index.toString(16)}`)] : [],
    loadBalancerSourceRanges: has(2) ? ['203.0.113.0/24', '192.168.0.0/16', 'fd00:203::/64'] : [],
    externalTrafficPolicy: has(3) ? 'Local' : 'Cluster',
    internalTrafficPolicy: has(4) ? 'Local' : 'Cluster',
    healthCheckNodePort: has(3) ? 20_000 + index : 0,
    sessionAffinity: has(5) ? 'ClientIP' : 'None',
    affinityTimeout: 600 + index,
    ports: [
      { name: 'http', port: 80, nodePort: has(2) ? 30_000 + index : 0 },
      { name: 'dns', port: 53, protocol: 'UDP', nodePort: has(3) ? 30_000 + index : 0 },
      { name: 'sctp', port: 9_000, protocol: 'SCTP' },
    ],
  });
}

const PORTS = [port('http', 8_080), port('dns', 5_353, 'UDP'), port('sctp', 9_000, 'SCTP')];

function subsetsAt(index: number): EndpointSubset[] {
  const pods = Array.from({ length: index % 7 }, (_, pod) => pod);
  const make = (pod: number): typeof endpoint => (pod % 5 === 4 ? terminating : endpoint);
  return [
    subset(
      PORTS,
      pods.map((pod) => make(pod)(`10.180.${pod % 3}.${10 + (index % 240)}`, { node: `n${pod % 3}`, hintZones: [`z${pod % 2}`] })),
    ),
    subset(
      PORTS,
      pods.map((pod) => make(pod)(`fd00:180:${pod % 3}::${(10 + index).toString(16)}`, { node: `n${pod % 3}` })),
      'IPv6',
    ),
  ];
}
