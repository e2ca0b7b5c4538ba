import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { API_VERSIONS, type Kind, kindOf, project } from '../../../functions/cluster/project.ts';

const KINDS: readonly Kind[] = ['Route', 'Service', 'EndpointSlice', 'Endpoints', 'Node', 'Namespace', 'Secret'];
const NAMESPACED = KINDS.filter((kind) => kind !== 'Node' && kind !== 'Namespace');

/** The least that makes an object of any kind. */
function minimal(metadata: object): unknown {
  return {
    metadata: { labels: { 'kubernetes.io/service-name': 'svc' }, ...metadata },
    spec: { to: { name: 'svc' } },
    addressType: 'IPv4',
    data: { 'tls.crt': '' },
  };
}

describe('kinds', () => {
  test('ours are known by kind and API together', () => {
    for (const kind of KINDS) assert.equal(kindOf(API_VERSIONS[kind], kind), kind);
  });
  const others = [
    ['apps/v1', 'Deployment'],
    ['v1', 'ConfigMap'],
    ['v1', 'Route'],
    ['serving.knative.dev/v1', 'Route'],
    ['serving.knative.dev/v1', 'Service'],
    ['discovery.k8s.io/v1beta1', 'EndpointSlice'],
    ['v1', 'toString'],
    ['v1', '__proto__'],
    ['', ''],
  ] as const;
  for (const [apiVersion, kind] of others) test(`not ${kind} of ${apiVersion}`, () => assert.equal(kindOf(apiVersion, kind), null));
});

describe('names', () => {
  for (const kind of NAMESPACED) {
    test(`${kind}: no namespace is "default"`, () => {
      for (const namespace of [undefined, null, '']) {
        const projection = project(kind, minimal({ name: 'a', namespace }));
        assert.equal(projection?.namespace, 'default');
        assert.deepEqual(projection.rejections, []);
      }
    });
  }

  for (const kind of KINDS) {
    test(`${kind}: a name as in DNS`, () => {
      for (const name of ['a', 'a-b', 'a.b', '0', 'a'.repeat(253)]) {
        assert.notEqual(project(kind, minimal({ name }))?.projected, null, name);
      }
    });

    test(`${kind}: any other name is rejected, and shown in printable ASCII`, () => {
      const bad = [
        'A',
        'a/b',
        '../a',
        '.a',
        'a.',
        '-a',
        'a_b',
        'a b',
        'a\0',
        'a\n',
        "a'",
        'a"',
        'a`',
        'a;',
        'é',
        'a'.repeat(254),
        '\u2028',
      ];
      for (const name of bad) {
        const projection = project(kind, minimal({ name }));
        assert.equal(projection?.projected, null, JSON.stringify(name));
        const [rejection] = projection?.rejections ?? [];
        assert.deepEqual([rejection?.scope, rejection?.field, rejection?.reason], ['object', 'metadata.name', 'InvalidName']);
        assert.match(rejection?.name ?? '', /^[\x21-\x7e]{1,253}$/);
        assert.match(rejection?.message ?? '', /^[\x20-\x7e]+$/);
      }
    });

    test(`${kind}: no name, or one that is no text`, () => {
      for (const name of [undefined, null, '', 5, {}, ['a']]) {
        const projection = project(kind, minimal({ name }));
        assert.equal(projection?.projected, null);
        assert.equal(projection?.rejections[0]?.field, 'metadata.name');
        assert.equal(projection?.rejections[0]?.reason, 'WrongType');
      }
    });
  }

  for (const kind of NAMESPACED) {
    test(`${kind}: a bad namespace is rejected`, () => {
      for (const namespace of ['A', 'a/b', 'a.b', '..', 'a'.repeat(64), 'a\n', '"']) {
        const projection = project(kind, minimal({ name: 'a', namespace }));
        assert.equal(projection?.projected, null, namespace);
        assert.deepEqual([projection?.rejections[0]?.field, projection?.rejections[0]?.reason], ['metadata.namespace', 'InvalidName']);
      }
      assert.equal(project(kind, minimal({ name: 'a', namespace: 5 }))?.rejections[0]?.reason, 'WrongType');
    });
  }

  test('Node and Namespace have no namespace, whatever they say', () => {
    for (const kind of ['Node', 'Namespace'] as const) {
      const projection = project(kind, minimal({ name: 'a', namespace: 'b' }));
      assert.equal(projection?.namespace, '');
      assert.notEqual(projection?.projected, null);
    }
  });
});

describe('Node', () => {
  test('addresses, labels and pod networks', () => {
    const raw = {
      metadata: { name: 'node-1', labels: { 'topology.kubernetes.io/zone': 'a' } },
      spec: { podCIDR: '10.1.0.0/24', podCIDRs: ['10.1.0.0/24', 'fd00:1::/64'] },
      status: {
        addresses: [
          { type: 'InternalIP', address: '192.168.0.2' },
          { type: 'Hostname', address: 'node-1' },
        ],
      },
    };
    assert.deepEqual(project('Node', raw)?.projected?.object, {
      name: 'node-1',
      labels: { 'topology.kubernetes.io/zone': 'a' },
      addresses: [
        { type: 'InternalIP', address: '192.168.0.2' },
        { type: 'Hostname', address: 'node-1' },
      ],
      podCIDRs: ['10.1.0.0/24', 'fd00:1::/64'],
    });
  });

  test('little is needed', () => {
    assert.deepEqual(project('Node', { metadata: { name: 'n' } })?.projected?.object, {
      name: 'n',
      labels: {},
      addresses: [],
      podCIDRs: [],
    });
    const single = project('Node', { metadata: { name: 'n' }, spec: { podCIDR: '10.1.0.0/24' }, status: {} });
    assert.deepEqual(single?.projected?.object, { name: 'n', labels: {}, addresses: [], podCIDRs: ['10.1.0.0/24'] });
  });

  test('wrong types', () => {
    const fields = [
      ['status.addresses[0].address', { status: { addresses: [{ type: 'InternalIP' }] } }],
      ['status.addresses', { status: { addresses: 'x' } }],
      ['spec.podCIDRs[0]', { spec: { podCIDRs: [5] } }],
      ['metadata.labels.a', { metadata: { name: 'n', labels: { a: 1 } } }],
    ] as const;
    for (const [field, raw] of fields) assert.equal(project('Node', { metadata: { name: 'n' }, ...raw })?.rejections[0]?.field, field);
  });
});

test('Namespace: its labels', () => {
  const raw = { metadata: { name: 'web', labels: { team: 'x' } } };
  assert.deepEqual(project('Namespace', raw)?.projected?.object, { name: 'web', labels: { team: 'x' } });
});

test('whatever JSON stands for an object, it is projected or rejected, never an error, and the rejection is legible', () => {
  const keys = [
    'metadata',
    'name',
    'namespace',
    'labels',
    'spec',
    'to',
    'ports',
    'subsets',
    'endpoints',
    'addresses',
    'addressType',
    'data',
    'tls',
    'status',
  ];
  const json = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom<unknown>(null, 'a', '', 'IPv4', '10.0.0.1', 80, 1.5, -1, true, '\n"', Number.MAX_VALUE),
      fc.array(tie('value'), { maxLength: 2 }),
      fc.dictionary(fc.constantFrom(...keys), tie('value'), { maxKeys: 6 }),
    ),
  })).value;
  fc.assert(
    fc.property(fc.constantFrom(...KINDS), json, (kind, raw) => {
      const projection = project(kind, raw);
      if (projection === null) return;
      assert.equal(projection.kind, kind);
      if (projection.projected === null) assert.equal(projection.rejections.length, 1);
      for (const rejection of projection.rejections) {
        assert.equal(rejection.scope === 'object', projection.projected === null);
        assert.match(`${rejection.namespace}${rejection.name}${rejection.field}${rejection.reason}${rejection.message}`, /^[\x20-\x7e]+$/);
      }
    }),
    { numRuns: 3_000 },
  );
});
