import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Projection, project } from '../../../functions/cluster/project.ts';
import type { ServicePart } from '../../../functions/cluster/project-endpoints.ts';

const PORTS = [{ name: 'http', port: 8080, protocol: 'TCP' }];

function slice(fields: object): unknown {
  return {
    metadata: { name: 'db-x1', namespace: 'data', labels: { 'kubernetes.io/service-name': 'db' } },
    addressType: 'IPv4',
    ports: PORTS,
    endpoints: [],
    ...fields,
  };
}

function partOf(projection: Projection | null): ServicePart {
  const projected = projection?.projected;
  assert.ok(projected?.kind === 'EndpointSlice' || projected?.kind === 'Endpoints', JSON.stringify(projection?.rejections));
  return projected.object;
}

function fieldsLeftOut(projection: Projection | null): readonly (readonly [string, string, string])[] {
  return (projection?.rejections ?? []).map(({ scope, field, reason }) => [scope, field, reason]);
}

const PLAIN = { ready: true, serving: true, terminating: false, node: null, zone: null, hintZones: [], hintNodes: [], pod: null };

describe('EndpointSlice', () => {
  test('one with everything', () => {
    const projection = project(
      'EndpointSlice',
      slice({
        ports: [
          { name: 'h2', port: 8443, protocol: 'TCP', appProtocol: 'h2c' },
          { port: 53, protocol: 'UDP' },
        ],
        endpoints: [
          {
            addresses: ['10.1.0.01', '10.1.0.2'],
            conditions: { ready: false, serving: true, terminating: true },
            nodeName: 'node-1',
            zone: 'eu-1a',
            hints: { forZones: [{ name: 'eu-1b' }, { name: 'eu-1a' }], forNodes: [{ name: 'node-2' }] },
            targetRef: { kind: 'Pod', name: 'db-0', namespace: 'data' },
          },
        ],
      }),
    );
    assert.deepEqual(projection?.rejections, []);
    assert.deepEqual(partOf(projection), {
      namespace: 'data',
      name: 'db-x1',
      service: 'db',
      subsets: [
        {
          family: 'IPv4',
          ports: [
            { name: 'h2', port: 8443, protocol: 'TCP', appProtocol: 'h2c' },
            { name: '', port: 53, protocol: 'UDP', appProtocol: null },
          ],
          endpoints: [
            {
              address: '10.1.0.1',
              ready: false,
              serving: true,
              terminating: true,
              node: 'node-1',
              zone: 'eu-1a',
              hintZones: ['eu-1a', 'eu-1b'],
              hintNodes: ['node-2'],
              pod: 'db-0',
            },
          ],
        },
      ],
    });
  });

  test('conditions that are not given: ready, serving, not terminating', () => {
    const endpoints = [
      { addresses: ['10.0.0.1'] },
      { addresses: ['10.0.0.2'], conditions: {} },
      { addresses: ['10.0.0.3'], conditions: { ready: null, serving: null, terminating: null } },
    ];
    const [subset] = partOf(project('EndpointSlice', slice({ endpoints }))).subsets;
    assert.deepEqual(
      subset?.endpoints,
      ['10.0.0.1', '10.0.0.2', '10.0.0.3'].map((address) => ({ address, ...PLAIN })),
    );
  });

  test('IPv6, written canonically', () => {
    const [subset] = partOf(project('EndpointSlice', slice({ addressType: 'IPv6', endpoints: [{ addresses: ['FD00:0:0::0A'] }] }))).subsets;
    assert.equal(subset?.family, 'IPv6');
    assert.equal(subset?.endpoints[0]?.address, 'fd00::a');
  });

  test('addresses are not judged here: loopback stays', () => {
    const [subset] = partOf(project('EndpointSlice', slice({ endpoints: [{ addresses: ['127.0.0.1'] }] }))).subsets;
    assert.equal(subset?.endpoints[0]?.address, '127.0.0.1');
  });

  test('an address that cannot be read is left out alone', () => {
    const endpoints = [
      { addresses: ['10.0.0.1'] },
      { addresses: ['10.0.0.256'] },
      { addresses: ['fd00::1'] },
      { addresses: [] },
      {},
      { addresses: ['a\n"b'] },
      { addresses: ['10.0.0.2'] },
    ];
    const projection = project('EndpointSlice', slice({ endpoints }));
    assert.deepEqual(
      partOf(projection).subsets[0]?.endpoints.map((endpoint) => endpoint.address),
      ['10.0.0.1', '10.0.0.2'],
    );
    assert.deepEqual(
      fieldsLeftOut(projection),
      [1, 2, 3, 4, 5].map((index) => ['setting', `endpoints[${index}].addresses[0]`, 'InvalidAddress']),
    );
    assert.equal(projection?.rejections[0]?.message, 'expected an IPv4 address, found "10.0.0.256"');
    for (const { message } of projection.rejections) assert.match(message, /^[\x20-\x7e]+$/);
  });

  test('a slice of host names counts, and holds nothing', () => {
    const projection = project('EndpointSlice', slice({ addressType: 'FQDN', endpoints: [{ addresses: ['db.example.com'] }] }));
    assert.deepEqual(partOf(projection).subsets, []);
    assert.deepEqual(projection?.rejections, []);
  });

  test('a slice of no service says nothing to us', () => {
    assert.equal(project('EndpointSlice', slice({ metadata: { name: 'x' } })), null);
    assert.equal(project('EndpointSlice', slice({ metadata: { name: 'x', labels: { 'kubernetes.io/service-name': '' } } })), null);
  });

  test('a port without a number is left out', () => {
    const ports = [{ name: 'any' }, { name: 'null', port: null }, { name: 'zero', port: 0 }, { name: 'one', port: 1 }];
    const [subset] = partOf(project('EndpointSlice', slice({ ports }))).subsets;
    assert.deepEqual(subset?.ports, [{ name: 'one', port: 1, protocol: 'TCP', appProtocol: null }]);
  });

  test('names that no node and no pod can have are left out', () => {
    const endpoints = [{ addresses: ['10.0.0.1'], nodeName: 'a b', targetRef: { kind: 'Pod', name: 'x\nserver evil 1.2.3.4' } }];
    const [subset] = partOf(project('EndpointSlice', slice({ endpoints }))).subsets;
    assert.deepEqual(subset?.endpoints, [{ address: '10.0.0.1', ...PLAIN }]);
  });

  test('only a pod is a pod', () => {
    const endpoints = [{ addresses: ['10.0.0.1'], targetRef: { kind: 'Node', name: 'node-1' } }];
    assert.equal(partOf(project('EndpointSlice', slice({ endpoints }))).subsets[0]?.endpoints[0]?.pod, null);
  });

  const wrong: readonly (readonly [string, string, object])[] = [
    ['addressType', 'WrongType', { addressType: undefined }],
    ['addressType', 'WrongType', { addressType: 4 }],
    ['addressType', 'WrongType', { addressType: 'ipv4' }],
    ['ports', 'WrongType', { ports: 80 }],
    ['ports[0].port', 'WrongType', { ports: [{ port: '80' }] }],
    ['ports[0].port', 'OutOfRange', { ports: [{ port: 65_536 }] }],
    ['ports[0].name', 'InvalidName', { ports: [{ port: 80, name: 'a b' }] }],
    ['ports[0].protocol', 'WrongType', { ports: [{ port: 80, protocol: 'ICMP' }] }],
    ['endpoints', 'WrongType', { endpoints: {} }],
    ['endpoints[0]', 'WrongType', { endpoints: ['10.0.0.1'] }],
    ['endpoints[0].addresses', 'WrongType', { endpoints: [{ addresses: '10.0.0.1' }] }],
    ['endpoints[1].addresses[1]', 'WrongType', { endpoints: [{ addresses: ['10.0.0.1'] }, { addresses: ['10.0.0.2', 5] }] }],
    ['endpoints[0].conditions', 'WrongType', { endpoints: [{ addresses: ['10.0.0.1'], conditions: [] }] }],
    ['endpoints[0].conditions.ready', 'WrongType', { endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: 'yes' } }] }],
    ['endpoints[0].nodeName', 'WrongType', { endpoints: [{ addresses: ['10.0.0.1'], nodeName: 1 }] }],
    ['endpoints[0].hints', 'WrongType', { endpoints: [{ addresses: ['10.0.0.1'], hints: 'x' }] }],
    ['endpoints[0].hints.forZones[0]', 'WrongType', { endpoints: [{ addresses: ['10.0.0.1'], hints: { forZones: ['a'] } }] }],
    ['endpoints[0].hints.forNodes[0].name', 'WrongType', { endpoints: [{ addresses: ['10.0.0.1'], hints: { forNodes: [{}] } }] }],
    ['endpoints[0].targetRef.name', 'WrongType', { endpoints: [{ addresses: ['10.0.0.1'], targetRef: { name: 1 } }] }],
    ['metadata.labels', 'WrongType', { metadata: { name: 'x', labels: 'y' } }],
    [
      'metadata.labels.kubernetes.io/service-name',
      'InvalidName',
      { metadata: { name: 'x', labels: { 'kubernetes.io/service-name': '../y' } } },
    ],
  ];
  for (const [field, reason, fields] of wrong) {
    test(`rejected for ${field}: ${JSON.stringify(fields)}`, () => {
      const projection = project('EndpointSlice', slice(fields));
      assert.equal(projection?.projected, null);
      assert.deepEqual(fieldsLeftOut(projection), [['object', field, reason]]);
    });
  }
});

describe('Endpoints', () => {
  const metadata = { name: 'db', namespace: 'data' };

  test('ready and not, of both families', () => {
    const projection = project('Endpoints', {
      metadata,
      subsets: [
        {
          addresses: [{ ip: '10.0.0.1', nodeName: 'node-1', targetRef: { kind: 'Pod', name: 'db-0' } }, { ip: 'fd00::1' }],
          notReadyAddresses: [{ ip: '10.0.0.2' }],
          ports: [{ port: 5432 }],
        },
      ],
    });
    assert.deepEqual(projection?.rejections, []);
    const ports = [{ name: '', port: 5432, protocol: 'TCP', appProtocol: null }];
    assert.deepEqual(partOf(projection), {
      namespace: 'data',
      name: 'db',
      service: 'db',
      subsets: [
        {
          family: 'IPv4',
          ports,
          endpoints: [
            { address: '10.0.0.1', ...PLAIN, node: 'node-1', pod: 'db-0' },
            { address: '10.0.0.2', ...PLAIN, ready: false, serving: false },
          ],
        },
        { family: 'IPv6', ports, endpoints: [{ address: 'fd00::1', ...PLAIN }] },
      ],
    });
  });

  test('none', () => {
    assert.deepEqual(partOf(project('Endpoints', { metadata })).subsets, []);
    assert.deepEqual(partOf(project('Endpoints', { metadata, subsets: null })).subsets, []);
  });

  test('a bad address is left out alone, a wrong type rejects', () => {
    const projection = project('Endpoints', {
      metadata,
      subsets: [{ addresses: [{ ip: '10.0.0.1' }, { ip: 'x' }, {}], ports: [{ port: 1 }] }],
    });
    assert.deepEqual(fieldsLeftOut(projection), [
      ['setting', 'subsets[0].addresses[1].ip', 'InvalidAddress'],
      ['setting', 'subsets[0].addresses[2].ip', 'InvalidAddress'],
    ]);
    assert.equal(partOf(projection).subsets[0]?.endpoints.length, 1);
    const wrong = project('Endpoints', { metadata, subsets: [{ addresses: [{ ip: 5 }] }] });
    assert.deepEqual(fieldsLeftOut(wrong), [['object', 'subsets[0].addresses[0].ip', 'WrongType']]);
  });
});
