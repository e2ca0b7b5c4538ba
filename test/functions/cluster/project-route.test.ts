import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Route } from '../../../functions/cluster/objects.ts';
import { project } from '../../../functions/cluster/project.ts';

const MINIMAL = { metadata: { name: 'shop', namespace: 'web' }, spec: { to: { name: 'shop' } } };

function routeOf(raw: unknown): Route {
  const projection = project('Route', raw);
  assert.deepEqual(projection?.rejections, []);
  assert.ok(projection?.projected?.kind === 'Route');
  return projection.projected.object;
}

function refusal(raw: unknown): readonly [string, string] {
  const projection = project('Route', raw);
  assert.ok(projection !== null);
  assert.equal(projection.projected, null);
  const [rejection, ...others] = projection.rejections;
  assert.ok(rejection !== undefined);
  assert.deepEqual(others, []);
  assert.equal(rejection.scope, 'object');
  assert.equal(rejection.kind, 'Route');
  return [rejection.field, rejection.reason];
}

test('a route with everything', () => {
  const route = routeOf({
    apiVersion: 'route.openshift.io/v1',
    kind: 'Route',
    metadata: {
      name: 'shop',
      namespace: 'web',
      uid: 'u-1',
      creationTimestamp: '2024-01-31T12:00:00Z',
      generation: 3,
      labels: { app: 'shop' },
      annotations: { 'haproxy.router.openshift.io/timeout': '5s' },
      managedFields: [{ anything: true }],
    },
    spec: {
      host: 'shop.example.com',
      subdomain: 'shop',
      path: '/cart',
      wildcardPolicy: 'Subdomain',
      to: { kind: 'Service', name: 'shop', weight: 10 },
      alternateBackends: [{ kind: 'Service', name: 'canary', weight: 0 }],
      port: { targetPort: 'https' },
      tls: {
        termination: 'reencrypt',
        insecureEdgeTerminationPolicy: 'Redirect',
        certificate: 'CERT',
        key: 'KEY',
        caCertificate: 'CA',
        destinationCACertificate: 'DEST',
        externalCertificate: { name: 'shop-tls' },
      },
      httpHeaders: {
        actions: {
          request: [{ name: 'X-A', action: { type: 'Set', set: { value: 'a "b"' } } }],
          response: [{ name: 'Server', action: { type: 'Delete' } }],
        },
      },
    },
    status: { ingress: [{ host: 'elsewhere' }] },
  });
  assert.deepEqual(route, {
    meta: {
      namespace: 'web',
      name: 'shop',
      uid: 'u-1',
      created: 1_706_702_400,
      generation: 3,
      labels: { app: 'shop' },
      annotations: { 'haproxy.router.openshift.io/timeout': '5s' },
    },
    host: 'shop.example.com',
    subdomain: 'shop',
    path: '/cart',
    wildcardPolicy: 'Subdomain',
    to: { kind: 'Service', name: 'shop', weight: 10 },
    alternateBackends: [{ kind: 'Service', name: 'canary', weight: 0 }],
    targetPort: 'https',
    tls: {
      termination: 'reencrypt',
      insecurePolicy: 'Redirect',
      certificate: 'CERT',
      key: 'KEY',
      caCertificate: 'CA',
      destinationCACertificate: 'DEST',
      externalCertificate: 'shop-tls',
    },
    headerActions: [
      { direction: 'request', name: 'X-A', action: { type: 'Set', value: 'a "b"' } },
      { direction: 'response', name: 'Server', action: { type: 'Delete' } },
    ],
  });
});

test('a route with nothing but a target', () => {
  assert.deepEqual(routeOf(MINIMAL), {
    meta: { namespace: 'web', name: 'shop', uid: '', created: 0, generation: 0, labels: {}, annotations: {} },
    host: null,
    subdomain: null,
    path: null,
    wildcardPolicy: null,
    to: { kind: 'Service', name: 'shop', weight: null },
    alternateBackends: [],
    targetPort: null,
    tls: null,
    headerActions: [],
  });
});

test('null and empty text count as absent', () => {
  const nothing = {
    host: '',
    path: null,
    subdomain: '',
    wildcardPolicy: '',
    port: null,
    tls: null,
    alternateBackends: null,
    httpHeaders: null,
  };
  const bare = { name: 'shop', namespace: 'web', uid: '', creationTimestamp: null, labels: null, annotations: null };
  assert.deepEqual(routeOf({ metadata: bare, spec: { ...nothing, to: { name: 'shop', weight: null } } }), routeOf(MINIMAL));
});

test('a route is judged later: what it says is kept as written', () => {
  const route = routeOf({
    ...MINIMAL,
    spec: {
      host: 'Not A Host;\n',
      path: '"\n',
      to: { kind: 'Pod', name: '../x', weight: -70_000 },
      port: { targetPort: 8080 },
      tls: { termination: 'magic' },
      httpHeaders: { actions: { request: [{ name: 'a b', action: { type: 'Append' } }] } },
    },
  });
  assert.equal(route.host, 'Not A Host;\n');
  assert.equal(route.path, '"\n');
  assert.deepEqual(route.to, { kind: 'Pod', name: '../x', weight: -70_000 });
  assert.equal(route.targetPort, 8080);
  assert.equal(route.tls?.termination, 'magic');
  assert.deepEqual(route.headerActions, [{ direction: 'request', name: 'a b', action: { type: 'Append' } }]);
});

describe('a field of the wrong type', () => {
  const wrong: readonly (readonly [string, object])[] = [
    ['spec.host', { host: 5 }],
    ['spec.host', { host: ['a'] }],
    ['spec.subdomain', { subdomain: {} }],
    ['spec.path', { path: true }],
    ['spec.wildcardPolicy', { wildcardPolicy: 1 }],
    ['spec.to', { to: 'shop' }],
    ['spec.to', { to: null }],
    ['spec.to.name', { to: {} }],
    ['spec.to.name', { to: { name: 5 } }],
    ['spec.to.kind', { to: { name: 'shop', kind: 5 } }],
    ['spec.to.weight', { to: { name: 'shop', weight: '10' } }],
    ['spec.to.weight', { to: { name: 'shop', weight: 1.5 } }],
    ['spec.to.weight', { to: { name: 'shop', weight: Number.NaN } }],
    ['spec.alternateBackends', { alternateBackends: { name: 'x' } }],
    ['spec.alternateBackends[1]', { alternateBackends: [{ name: 'x' }, 'y'] }],
    ['spec.alternateBackends[1].weight', { alternateBackends: [{ name: 'x' }, { name: 'y', weight: true }] }],
    ['spec.port', { port: 80 }],
    ['spec.port.targetPort', { port: { targetPort: [80] } }],
    ['spec.port.targetPort', { port: { targetPort: 80.5 } }],
    ['spec.tls', { tls: 'edge' }],
    ['spec.tls.termination', { tls: { termination: 1 } }],
    ['spec.tls.key', { tls: { key: 5 } }],
    ['spec.tls.externalCertificate', { tls: { externalCertificate: 'x' } }],
    ['spec.tls.externalCertificate.name', { tls: { externalCertificate: { name: 1 } } }],
    ['spec.httpHeaders', { httpHeaders: [] }],
    ['spec.httpHeaders.actions', { httpHeaders: { actions: [] } }],
    ['spec.httpHeaders.actions.request', { httpHeaders: { actions: { request: {} } } }],
    ['spec.httpHeaders.actions.response[0].name', { httpHeaders: { actions: { response: [{ action: { type: 'Delete' } }] } } }],
    ['spec.httpHeaders.actions.request[0].action', { httpHeaders: { actions: { request: [{ name: 'X' }] } } }],
    ['spec.httpHeaders.actions.request[0].action.set', { httpHeaders: { actions: { request: [{ name: 'X', action: { type: 'Set' } }] } } }],
    [
      'spec.httpHeaders.actions.request[0].action.set.value',
      { httpHeaders: { actions: { request: [{ name: 'X', action: { type: 'Set', set: { value: 1 } } }] } } },
    ],
  ];
  for (const [field, spec] of wrong) {
    test(`${field}: ${JSON.stringify(spec)}`, () => {
      assert.deepEqual(refusal({ ...MINIMAL, spec: { ...MINIMAL.spec, ...spec } }), [field, 'WrongType']);
    });
  }

  const wrongMetadata: readonly (readonly [string, object])[] = [
    ['metadata.uid', { uid: 5 }],
    ['metadata.generation', { generation: '3' }],
    ['metadata.creationTimestamp', { creationTimestamp: 'yesterday' }],
    ['metadata.creationTimestamp', { creationTimestamp: '2024-13-31T12:00:00Z' }],
    ['metadata.creationTimestamp', { creationTimestamp: 1_706_702_400 }],
    ['metadata.labels', { labels: [] }],
    ['metadata.labels.app', { labels: { app: 1 } }],
    ['metadata.annotations.a/b', { annotations: { ok: 'x', 'a/b': true } }],
    ['metadata.annotations.a?b', { annotations: { 'a\nb': null } }],
  ];
  for (const [field, metadata] of wrongMetadata) {
    test(`${field}: ${JSON.stringify(metadata)}`, () => {
      assert.deepEqual(refusal({ ...MINIMAL, metadata: { ...MINIMAL.metadata, ...metadata } }), [field, 'WrongType']);
    });
  }

  test('spec and metadata themselves', () => {
    assert.deepEqual(refusal({ metadata: MINIMAL.metadata }), ['spec', 'WrongType']);
    assert.deepEqual(refusal({ metadata: MINIMAL.metadata, spec: [] }), ['spec', 'WrongType']);
    assert.deepEqual(refusal({ spec: MINIMAL.spec }), ['metadata', 'WrongType']);
    assert.deepEqual(refusal('text'), ['', 'WrongType']);
    assert.deepEqual(refusal(null), ['', 'WrongType']);
    assert.deepEqual(refusal([MINIMAL]), ['', 'WrongType']);
  });

  test('a number that is none of ours', () => {
    assert.deepEqual(refusal({ ...MINIMAL, spec: { ...MINIMAL.spec, port: { targetPort: 65_536 } } }), [
      'spec.port.targetPort',
      'OutOfRange',
    ]);
    assert.deepEqual(refusal({ ...MINIMAL, spec: { to: { name: 'x', weight: 2 ** 31 } } }), ['spec.to.weight', 'OutOfRange']);
  });
});

test('the time of creation is in seconds, whatever the zone', () => {
  const created = (creationTimestamp: string): number =>
    routeOf({ ...MINIMAL, metadata: { ...MINIMAL.metadata, creationTimestamp } }).meta.created;
  assert.equal(created('1970-01-01T00:00:01Z'), 1);
  assert.equal(created('1970-01-01T01:00:01+01:00'), 1);
  assert.equal(created('1970-01-01T00:00:01.999Z'), 1);
});

test('a key is never repeated', () => {
  const projection = project('Route', { ...MINIMAL, spec: { ...MINIMAL.spec, tls: { key: ['-----BEGIN PRIVATE KEY-----'] } } });
  assert.doesNotMatch(JSON.stringify(projection), /PRIVATE/);
});

test('labels and annotations named like members of Object are plain entries', () => {
  const raw: unknown = JSON.parse('{"metadata":{"name":"r","labels":{"__proto__":"x","constructor":"y"}},"spec":{"to":{"name":"s"}}}');
  const { labels } = routeOf(raw).meta;
  assert.deepEqual(Object.entries(labels), [
    ['__proto__', 'x'],
    ['constructor', 'y'],
  ]);
  assert.equal(Object.getPrototypeOf(labels), Object.prototype);
});
