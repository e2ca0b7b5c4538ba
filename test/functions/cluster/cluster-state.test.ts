import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { clusterState } from '../../../functions/cluster/cluster-state.ts';
import type { ClusterState } from '../../../functions/cluster/objects.ts';
import { type Kind, project } from '../../../functions/cluster/project.ts';

type Listed = readonly [Kind, unknown];

function stateOf(...listed: readonly Listed[]): ClusterState {
  return clusterState(
    listed.flatMap(([kind, raw]) => {
      const projection = project(kind, raw);
      return projection === null ? [] : [projection];
    }),
  );
}

const route = (namespace: string, name: string, host = 'a.example.com'): Listed => [
  'Route',
  { metadata: { namespace, name }, spec: { host, to: { name: 's' } } },
];
const slice = (name: string, address: string): Listed => [
  'EndpointSlice',
  {
    metadata: { namespace: 'a', name, labels: { 'kubernetes.io/service-name': 'db' } },
    addressType: 'IPv4',
    ports: [{ port: 1 }],
    endpoints: [{ addresses: [address] }],
  },
];
const older = (ip: string): Listed => [
  'Endpoints',
  { metadata: { namespace: 'a', name: 'db' }, subsets: [{ addresses: [{ ip }], ports: [{ port: 1 }] }] },
];
const secret = (text: string): Listed => [
  'Secret',
  { metadata: { namespace: 'a', name: 'tls' }, data: { 'tls.crt': Buffer.from(text).toString('base64') } },
];

test('objects of each kind, by namespace and name', () => {
  const state = stateOf(
    route('b', 'x'),
    ['Node', { metadata: { name: 'n2' } }],
    route('a-b', 'x'),
    ['Service', { metadata: { namespace: 'b', name: 's' } }],
    route('a', 'z'),
    ['Namespace', { metadata: { name: 'web' } }],
    ['Node', { metadata: { name: 'n1' } }],
    secret('CERT'),
    route('a', 'y'),
    ['Service', { metadata: { namespace: 'a', name: 's' } }],
    slice('db-1', '10.0.0.1'),
  );
  assert.deepEqual(
    state.routes.map(({ meta }) => `${meta.namespace}/${meta.name}`),
    ['a/y', 'a/z', 'a-b/x', 'b/x'],
  );
  assert.deepEqual(
    state.services.map(({ meta }) => meta.namespace),
    ['a', 'b'],
  );
  assert.deepEqual(
    state.nodes.map(({ name }) => name),
    ['n1', 'n2'],
  );
  assert.deepEqual(state.namespaces, [{ name: 'web', labels: {} }]);
  assert.equal(state.secrets.length, 1);
  assert.deepEqual([...state.endpoints.keys()], ['a/db']);
  assert.deepEqual(state.rejections, []);
});

test('nothing is a state too', () => {
  assert.deepEqual(stateOf(), { routes: [], services: [], nodes: [], namespaces: [], secrets: [], endpoints: new Map(), rejections: [] });
});

describe('an object that stands twice', () => {
  test('with one content, counts once', () => {
    const state = stateOf(
      route('a', 'x'),
      route('a', 'x'),
      secret('CERT'),
      secret('CERT'),
      slice('db-1', '10.0.0.1'),
      slice('db-1', '10.0.0.1'),
    );
    assert.equal(state.routes.length, 1);
    assert.equal(state.secrets.length, 1);
    assert.equal(state.endpoints.get('a/db')?.subsets[0]?.endpoints.length, 1);
    assert.deepEqual(state.rejections, []);
  });

  const differing: readonly (readonly [string, Listed, Listed, Listed])[] = [
    ['Route', route('a', 'x', 'one.example.com'), route('a', 'x', 'two.example.com'), route('a', 'y')],
    ['EndpointSlice', slice('db-1', '10.0.0.1'), slice('db-1', '10.0.0.2'), route('a', 'y')],
    ['Secret', secret('CERT'), secret('OTHER'), route('a', 'y')],
  ];
  for (const [kind, one, two, beside] of differing) {
    test(`${kind}: with two contents, in any order and number, none counts and the rest stands`, () => {
      const state = stateOf(one, two, beside);
      assert.deepEqual(
        state.rejections.map(({ reason, scope, field, ...rest }) => [rest.kind, reason, scope, field]),
        [[kind, 'DuplicateObject', 'object', '']],
      );
      assert.deepEqual(
        state.routes.map(({ meta }) => meta.name),
        ['y'],
      );
      assert.equal(state.secrets.length + state.endpoints.size, 0);
      assert.deepEqual(stateOf(beside, two, one), state);
      assert.deepEqual(stateOf(one, beside, one, two, two), state);
      assert.deepEqual(stateOf(two, one, one, beside), state);
      assert.doesNotMatch(JSON.stringify(state.rejections), /CERT|OTHER/);
    });
  }

  test('of one name in another namespace or kind is another object', () => {
    const state = stateOf(route('a', 's'), route('b', 's'), ['Service', { metadata: { namespace: 'a', name: 's' } }]);
    assert.equal(state.routes.length + state.services.length, 3);
    assert.deepEqual(state.rejections, []);
  });

  test('wrong in one way is one rejection; beside a right one, the right one stands', () => {
    const wrong: Listed = ['Route', { metadata: { namespace: 'a', name: 'x' }, spec: { host: 5 } }];
    const state = stateOf(wrong, wrong, route('a', 'x'));
    assert.equal(state.rejections.length, 1);
    assert.equal(state.routes.length, 1);
    assert.deepEqual(stateOf(route('a', 'x'), wrong), state);
  });
});

test('what is left out of a slice is reported; of Endpoints only when they count', () => {
  const bad = stateOf(slice('db-1', 'x'), older('y'));
  assert.deepEqual(
    bad.rejections.map(({ kind, name, field }) => [kind, name, field]),
    [['EndpointSlice', 'db-1', 'endpoints[0].addresses[0]']],
  );
  assert.equal(bad.endpoints.size, 0);
  assert.deepEqual(
    stateOf(older('y')).rejections.map(({ kind, name, field }) => [kind, name, field]),
    [['Endpoints', 'db', 'subsets[0].addresses[0].ip']],
  );
});
