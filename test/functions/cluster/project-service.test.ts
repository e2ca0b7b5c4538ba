import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Service } from '../../../functions/cluster/objects.ts';
import { project } from '../../../functions/cluster/project.ts';

const METADATA = { name: 'db', namespace: 'data' };

function serviceOf(spec: unknown, status?: unknown): Service {
  const projection = project('Service', { metadata: METADATA, spec, status });
  assert.deepEqual(projection?.rejections, []);
  assert.ok(projection?.projected?.kind === 'Service');
  return projection.projected.object;
}

test('a service with everything', () => {
  const service = serviceOf(
    {
      type: 'LoadBalancer',
      clusterIP: '172.30.0.41',
      clusterIPs: ['172.30.0.41', 'fd00::41'],
      externalIPs: ['198.51.100.1'],
      loadBalancerSourceRanges: [' 10.0.0.0/8 '],
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Local',
      trafficDistribution: 'PreferClose',
      healthCheckNodePort: 32_000,
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
      publishNotReadyAddresses: true,
      ports: [
        { name: 'http', protocol: 'TCP', port: 80, targetPort: 'web', nodePort: 30_080, appProtocol: 'kubernetes.io/h2c' },
        { name: 'dns', protocol: 'UDP', port: 53, targetPort: 5353 },
      ],
    },
    { loadBalancer: { ingress: [{ ip: '192.0.2.1' }, { hostname: 'lb.example.com', ipMode: 'Proxy' }] } },
  );
  assert.deepEqual(service, {
    meta: { ...METADATA, uid: '', created: 0, generation: 0, labels: {}, annotations: {} },
    type: 'LoadBalancer',
    clusterIPs: ['172.30.0.41', 'fd00::41'],
    externalIPs: ['198.51.100.1'],
    loadBalancerIngress: [
      { ip: '192.0.2.1', hostname: null, ipMode: 'VIP' },
      { ip: null, hostname: 'lb.example.com', ipMode: 'Proxy' },
    ],
    loadBalancerSourceRanges: [' 10.0.0.0/8 '],
    externalTrafficPolicy: 'Local',
    internalTrafficPolicy: 'Local',
    trafficDistribution: 'PreferClose',
    healthCheckNodePort: 32_000,
    sessionAffinity: 'ClientIP',
    affinityTimeout: 60,
    publishNotReadyAddresses: true,
    ports: [
      { name: 'http', protocol: 'TCP', port: 80, targetPort: 'web', nodePort: 30_080, appProtocol: 'kubernetes.io/h2c' },
      { name: 'dns', protocol: 'UDP', port: 53, targetPort: 5353, nodePort: 0, appProtocol: null },
    ],
  });
});

test('what the API server would default', () => {
  const plain = serviceOf({ ports: [{ port: 80 }] });
  assert.deepEqual(plain, {
    meta: { ...METADATA, uid: '', created: 0, generation: 0, labels: {}, annotations: {} },
    type: 'ClusterIP',
    clusterIPs: [],
    externalIPs: [],
    loadBalancerIngress: [],
    loadBalancerSourceRanges: [],
    externalTrafficPolicy: 'Cluster',
    internalTrafficPolicy: 'Cluster',
    trafficDistribution: null,
    healthCheckNodePort: 0,
    sessionAffinity: 'None',
    affinityTimeout: 10_800,
    publishNotReadyAddresses: false,
    ports: [{ name: '', protocol: 'TCP', port: 80, targetPort: null, nodePort: 0, appProtocol: null }],
  });
  assert.deepEqual(serviceOf(undefined), { ...plain, ports: [] });
  assert.deepEqual(serviceOf({ clusterIPs: null, ports: [{ port: 80, targetPort: 0, nodePort: null }], sessionAffinityConfig: {} }), plain);
});

test('the cluster IP, alone or in a list', () => {
  assert.deepEqual(serviceOf({ clusterIP: 'None' }).clusterIPs, ['None']);
  assert.deepEqual(serviceOf({ clusterIP: '172.30.0.041' }).clusterIPs, ['172.30.0.041']);
  assert.deepEqual(serviceOf({ clusterIP: '', clusterIPs: [''] }).clusterIPs, []);
  assert.deepEqual(serviceOf({ clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.2'] }).clusterIPs, ['10.0.0.2']);
});

test('public addresses under their old name are external addresses, each once', () => {
  assert.deepEqual(serviceOf({ deprecatedPublicIPs: ['1.1.1.1'] }).externalIPs, ['1.1.1.1']);
  assert.deepEqual(serviceOf({ externalIPs: ['2.2.2.2', '1.1.1.1'], deprecatedPublicIPs: ['1.1.1.1', '3.3.3.3'] }).externalIPs, [
    '2.2.2.2',
    '1.1.1.1',
    '3.3.3.3',
  ]);
});

describe('a field of the wrong type', () => {
  const port = { port: 80 };
  const wrong: readonly (readonly [string, string, unknown])[] = [
    ['spec', 'WrongType', 'text'],
    ['spec.type', 'WrongType', { type: 1 }],
    ['spec.clusterIP', 'WrongType', { clusterIP: 1 }],
    ['spec.clusterIPs', 'WrongType', { clusterIPs: '10.0.0.1' }],
    ['spec.clusterIPs[1]', 'WrongType', { clusterIPs: ['10.0.0.1', 5] }],
    ['spec.externalIPs[0]', 'WrongType', { externalIPs: [{}] }],
    ['spec.deprecatedPublicIPs', 'WrongType', { deprecatedPublicIPs: 'x' }],
    ['spec.loadBalancerSourceRanges', 'WrongType', { loadBalancerSourceRanges: '10.0.0.0/8' }],
    ['spec.healthCheckNodePort', 'OutOfRange', { healthCheckNodePort: 65_536 }],
    ['spec.sessionAffinityConfig', 'WrongType', { sessionAffinityConfig: 5 }],
    ['spec.sessionAffinityConfig.clientIP', 'WrongType', { sessionAffinityConfig: { clientIP: 5 } }],
    ['spec.sessionAffinityConfig.clientIP.timeoutSeconds', 'WrongType', { sessionAffinityConfig: { clientIP: { timeoutSeconds: '60' } } }],
    ['spec.sessionAffinityConfig.clientIP.timeoutSeconds', 'OutOfRange', { sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } } }],
    [
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds',
      'OutOfRange',
      { sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_401 } } },
    ],
    ['spec.publishNotReadyAddresses', 'WrongType', { publishNotReadyAddresses: 'true' }],
    ['spec.ports', 'WrongType', { ports: port }],
    ['spec.ports[0]', 'WrongType', { ports: [80] }],
    ['spec.ports[0].port', 'WrongType', { ports: [{}] }],
    ['spec.ports[0].port', 'WrongType', { ports: [{ port: '80' }] }],
    ['spec.ports[0].port', 'OutOfRange', { ports: [{ port: 0 }] }],
    ['spec.ports[0].port', 'OutOfRange', { ports: [{ port: 65_536 }] }],
    ['spec.ports[1].port', 'OutOfRange', { ports: [port, { port: -1 }] }],
    ['spec.ports[0].nodePort', 'OutOfRange', { ports: [{ ...port, nodePort: -1 }] }],
    ['spec.ports[0].targetPort', 'WrongType', { ports: [{ ...port, targetPort: true }] }],
    ['spec.ports[0].targetPort', 'OutOfRange', { ports: [{ ...port, targetPort: 100_000 }] }],
    ['spec.ports[0].protocol', 'WrongType', { ports: [{ ...port, protocol: 'tcp' }] }],
    ['spec.ports[0].protocol', 'WrongType', { ports: [{ ...port, protocol: 6 }] }],
    ['spec.ports[0].name', 'WrongType', { ports: [{ ...port, name: 80 }] }],
    ['spec.ports[0].name', 'InvalidName', { ports: [{ ...port, name: 'a" -j ACCEPT' }] }],
    ['spec.ports[0].name', 'InvalidName', { ports: [{ ...port, name: 'a\n' }] }],
    ['spec.ports[0].appProtocol', 'WrongType', { ports: [{ ...port, appProtocol: [] }] }],
  ];
  for (const [field, reason, spec] of wrong) {
    test(`${field}: ${JSON.stringify(spec)}`, () => {
      const projection = project('Service', { metadata: METADATA, spec });
      assert.equal(projection?.projected, null);
      const [rejection] = projection?.rejections ?? [];
      assert.deepEqual([rejection?.field, rejection?.reason, rejection?.scope], [field, reason, 'object']);
      assert.deepEqual([rejection?.kind, rejection?.namespace, rejection?.name], ['Service', 'data', 'db']);
      assert.match(rejection?.message ?? '', /^expected /);
    });
  }

  test('in its status', () => {
    for (const status of [{ loadBalancer: 5 }, { loadBalancer: { ingress: {} } }, { loadBalancer: { ingress: [{ ip: 5 }] } }]) {
      assert.equal(project('Service', { metadata: METADATA, status })?.projected, null, JSON.stringify(status));
    }
  });
});
