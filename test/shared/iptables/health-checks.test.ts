import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Service } from '../../../functions/cluster/objects.ts';
import type { IptablesOptions } from '../../../functions/options.ts';
import type { Endpoint, EndpointSubset } from '../../../shared/endpoint.ts';
import { composeProxy } from '../../../shared/iptables/compose.ts';
import { endpoint, endpointsOf, node, port, proxyFiles, service, state, subset, terminating } from '../../functions/iptables/cluster.ts';

const PORT = 32_000;
const LOCAL = {
  type: 'LoadBalancer',
  externalTrafficPolicy: 'Local',
  healthCheckNodePort: PORT,
  ports: [{ name: 'p80', port: 80, nodePort: 30_080 }],
} as const;
const NODE = node('n1', {
  addresses: [
    { type: 'InternalIP', address: '192.168.0.2' },
    { type: 'ExternalIP', address: '203.0.113.9' },
    { type: 'InternalIP', address: 'fd00:192::2' },
  ],
});
const here = (address: string): Endpoint => endpoint(address, { node: 'n1' });
const away = (address: string): Endpoint => endpoint(address, { node: 'n2' });
const behind = (...endpoints: Endpoint[]): EndpointSubset => subset([port('p80', 80)], endpoints);

/** `address:port service count`, one line each. */
function answered(
  services: readonly Service[],
  endpoints: Readonly<Record<string, readonly EndpointSubset[]>>,
  options: Partial<IptablesOptions> = {},
): string[] {
  const { files } = proxyFiles(state(services, endpointsOf(endpoints), [NODE]), options);
  return composeProxy(files, 'n1').healthChecks.map((check) => {
    return `${check.address} ${check.port} ${check.namespace}/${check.name} ${check.localEndpoints}`;
  });
}

test('ready endpoints of this node count, each address once; those that terminate do not', () => {
  const endpoints = [here('10.180.0.1'), here('10.180.0.2'), terminating('10.180.0.3', { node: 'n1' }), away('10.180.2.1')];
  const twoPorts = service({ ...LOCAL, ports: [...LOCAL.ports, { name: 'p443', port: 443, nodePort: 30_443 }] });
  const subsets = [behind(...endpoints), subset([port('p443', 8443)], endpoints)];
  assert.deepEqual(answered([twoPorts], { 'ns1/svc1': subsets }), [`0.0.0.0 ${PORT} ns1/svc1 2`]);
  assert.deepEqual(answered([service(LOCAL)], { 'ns1/svc1': [behind(away('10.180.2.1'))] }), [`0.0.0.0 ${PORT} ns1/svc1 0`]);
  assert.deepEqual(answered([service(LOCAL)], {}), [`0.0.0.0 ${PORT} ns1/svc1 0`]);
});

test('only load balancers with the external policy Local have the port', () => {
  assert.deepEqual(answered([service({ ...LOCAL, externalTrafficPolicy: 'Cluster' })], {}), []);
  assert.deepEqual(answered([service({ ...LOCAL, type: 'NodePort' })], {}), []);
});

test('each family of the service is answered with its own endpoints', () => {
  const both = service({ ...LOCAL, clusterIPs: ['172.30.0.41', 'fd00:30::41'] });
  const endpoints = { 'ns1/svc1': [behind(here('10.180.0.1')), subset([port('p80', 80)], [away('fd00:180::1')], 'IPv6')] };
  assert.deepEqual(answered([both], endpoints), [`0.0.0.0 ${PORT} ns1/svc1 1`, `:: ${PORT} ns1/svc1 0`]);
});

test('restricted node-port addresses hold for the health check too', () => {
  const places = (...nodePortAddresses: string[]): string[] =>
    answered([service(LOCAL)], {}, { nodePortAddresses }).map((line) => line.split(' ')[0] ?? '');
  assert.deepEqual(places('192.168.0.0/16'), ['192.168.0.2']);
  assert.deepEqual(places('192.168.0.0/16', '127.0.0.0/8', '203.0.113.0/24'), ['192.168.0.2', '203.0.113.9', '127.0.0.1']);
  assert.deepEqual(places('198.51.100.0/24'), []);
  assert.deepEqual(places('0.0.0.0/0'), ['0.0.0.0']);
});

test('a port that two services name is answered for the first by name, however they are listed', () => {
  const services = ['b', 'a', 'c'].map((name, index) => service({ ...LOCAL, name, clusterIPs: [`172.30.0.${index + 1}`] }));
  for (const listed of [services, services.toReversed()]) assert.deepEqual(answered(listed, {}), [`0.0.0.0 ${PORT} ns1/a 0`]);
});
