import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { Route } from '../../../functions/cluster/objects.ts';
import type { RouterOptions } from '../../../functions/options.ts';
import { type RouteChanges, outcome, route } from './admission-fixtures.ts';
import { cases } from '../../fixtures/cases.ts';

/** A route named `namespace/name` of that age. */
function claim(name: string, created: number, changes: RouteChanges = {}): Route {
  const [namespace = '', own = ''] = name.split('/');
  return route({ ...changes, meta: { namespace, name: own, created, uid: `uid-${name}`, ...changes.meta } });
}

const wildcard = { wildcardPolicy: 'Subdomain' };
const passthrough = { tls: { termination: 'passthrough' } };
const edge = { tls: { termination: 'edge' } };

interface Scenario {
  readonly name: string;
  readonly routes: readonly Route[];
  readonly admitted: readonly string[];
  readonly options?: Partial<RouterOptions>;
}

const scenarios: readonly Scenario[] = [
  { name: 'the oldest has the host', routes: [claim('a/young', 2), claim('b/old', 1)], admitted: ['b/old'] },
  {
    name: 'of the same age the lower UID has it',
    routes: [claim('a/x', 1, { meta: { uid: '2' } }), claim('b/x', 1, { meta: { uid: '1' } })],
    admitted: ['b/x'],
  },
  {
    name: 'without age and UID the name decides',
    routes: [claim('b/x', 0, { meta: { uid: '' } }), claim('a/x', 0, { meta: { uid: '' } })],
    admitted: ['a/x'],
  },
  {
    name: 'the owner may use other paths, another namespace none',
    routes: [claim('a/root', 1), claim('a/sub', 3, { path: '/sub' }), claim('b/sub', 2, { path: '/other' })],
    admitted: ['a/root', 'a/sub'],
  },
  {
    name: 'one path belongs to the oldest route',
    routes: [claim('a/one', 2, { path: '/sub' }), claim('a/two', 1, { path: '/sub' })],
    admitted: ['a/two'],
  },
  { name: '/ and no path are one claim', routes: [claim('a/one', 1, { path: '/' }), claim('a/two', 2)], admitted: ['a/one'] },
  {
    name: '/sub and /sub/ are two claims',
    routes: [claim('a/one', 1, { path: '/sub' }), claim('a/two', 2, { path: '/sub/' })],
    admitted: ['a/one', 'a/two'],
  },
  {
    name: 'an http and an edge route claim the same path',
    routes: [claim('a/one', 1), claim('a/two', 2, edge)],
    admitted: ['a/one'],
  },
  {
    name: 'a route that is rejected by itself claims nothing',
    routes: [claim('a/bad', 1, { path: 'no-slash' }), claim('b/good', 2)],
    admitted: ['b/good'],
  },
  {
    name: 'a route whose certificate is bad claims nothing',
    routes: [claim('a/bad', 1, { tls: { certificate: 'x', key: 'y' } }), claim('b/good', 2)],
    admitted: ['b/good'],
  },
  {
    name: 'a route that lost its claim claims nothing else',
    routes: [claim('a/exact', 1, { host: 'x.example.com' }), claim('b/wild', 2, wildcard), claim('c/exact', 3, { host: 'y.example.com' })],
    admitted: ['a/exact', 'c/exact'],
  },
  {
    name: 'a wildcard keeps other namespaces from its hosts',
    routes: [claim('a/wild', 1, wildcard), claim('b/exact', 2, { host: 'x.example.com' })],
    admitted: ['a/wild'],
  },
  {
    name: 'a wildcard and exact hosts live together in one namespace',
    routes: [claim('a/wild', 1, wildcard), claim('a/exact', 2, { host: 'www.example.com' })],
    admitted: ['a/exact', 'a/wild'],
  },
  {
    name: 'a wildcard says nothing of other levels',
    routes: [
      claim('a/wild', 1, wildcard),
      claim('b/deeper', 2, { host: 'x.y.example.com' }),
      claim('c/above', 3, { host: 'example.com' }),
      claim('d/deeper', 4, { ...wildcard, host: 'x.y.example.com' }),
    ],
    admitted: ['a/wild', 'b/deeper', 'c/above'],
  },
  {
    name: 'wildcards of one domain are one host, whatever their first label',
    routes: [claim('a/one', 1, { ...wildcard, host: 'x.example.com' }), claim('b/two', 2, { ...wildcard, host: 'y.example.com' })],
    admitted: ['a/one'],
  },
  {
    name: 'a wildcard is kept out by any namespace below it, not by its own',
    routes: [
      claim('b/own', 1, { host: 'own.example.com' }),
      claim('a/other', 2, { host: 'other.example.com' }),
      claim('b/wild', 3, wildcard),
    ],
    admitted: ['a/other', 'b/own'],
  },
  {
    name: 'passthrough keeps other TLS from the host',
    routes: [claim('a/pass', 1, passthrough), claim('a/edge', 2, { ...edge, path: '/sub' })],
    admitted: ['a/pass'],
  },
  {
    name: 'terminated TLS keeps passthrough from the host',
    routes: [claim('a/edge', 1, { ...edge, path: '/sub' }), claim('a/pass', 2, passthrough)],
    admitted: ['a/edge'],
  },
  {
    name: 'an http route on another path does not',
    routes: [claim('a/pass', 1, passthrough), claim('a/http', 2, { path: '/sub' })],
    admitted: ['a/http', 'a/pass'],
  },
  {
    name: 'edge and reencrypt share a host',
    routes: [claim('a/edge', 1, edge), claim('a/again', 2, { tls: { termination: 'reencrypt' }, path: '/sub' })],
    admitted: ['a/again', 'a/edge'],
  },
  {
    name: 'without the ownership check namespaces share hosts, not paths',
    routes: [
      claim('a/root', 1),
      claim('b/sub', 2, { path: '/sub' }),
      claim('b/root', 3),
      claim('c/wild', 4, wildcard),
      claim('d/exact', 5, { host: 'x.example.com' }),
    ],
    admitted: ['a/root', 'b/sub', 'c/wild', 'd/exact'],
    options: { disableNamespaceOwnershipCheck: true },
  },
  {
    name: 'without the ownership check passthrough still has the host alone',
    routes: [claim('a/pass', 1, passthrough), claim('b/edge', 2, { ...edge, path: '/sub' })],
    admitted: ['a/pass'],
    options: { disableNamespaceOwnershipCheck: true },
  },
];

const allowing = (options: Partial<RouterOptions> = {}): Partial<RouterOptions> => ({ allowWildcardRoutes: true, ...options });

describe('claims', () => {
  for (const { name, routes, admitted, options } of scenarios) {
    test(name, () => {
      const result = outcome(routes, allowing(options));
      assert.deepEqual(result.admitted, admitted);
      assert.equal(result.admitted.length + result.objects.length, routes.length);
    });
  }

  test('the order of the listing does not matter', () => {
    for (const { routes, options } of scenarios) {
      fc.assert(
        fc.property(fc.shuffledSubarray([...routes], { minLength: routes.length }), (shuffled) => {
          assert.deepEqual(outcome(shuffled, allowing(options)), outcome(routes, allowing(options)));
        }),
        { numRuns: 10 },
      );
    }
  });

  test('whoever is refused is told whose route is older', () => {
    const result = outcome([claim('a/old', 1), claim('b/young', 2)]);
    assert.deepEqual(result.objects, ['b/young HostAlreadyClaimed spec.host']);
  });
});

describe('when the owner goes', () => {
  const routes = [claim('a/old', 1), claim('b/next', 2), claim('b/next-sub', 3, { path: '/sub' }), claim('c/last', 4)];

  test('the next oldest namespace has the host', () => {
    assert.deepEqual(outcome(routes).admitted, ['a/old']);
    assert.deepEqual(outcome(routes.slice(1)).admitted, ['b/next', 'b/next-sub']);
    assert.deepEqual(outcome(routes.slice(3)).admitted, ['c/last']);
  });

  test('moving to another host is going', () => {
    const moved = routes.map((one) => (one.meta.name === 'old' ? { ...one, host: 'moved.example.com' } : one));
    assert.deepEqual(outcome(moved).admitted, ['a/old', 'b/next', 'b/next-sub']);
  });

  test('an exact host follows when a wildcard goes', () => {
    const held = [claim('a/wild', 1, wildcard), claim('b/exact', 2, { host: 'x.example.com' })];
    assert.deepEqual(outcome(held, allowing()).admitted, ['a/wild']);
    assert.deepEqual(outcome(held.slice(1), allowing()).admitted, ['b/exact']);
  });
});

test('no two namespaces share a host, and no two routes a path, whatever is asked for', () => {
  const asked = fc.record({
    namespace: fc.constantFrom('a', 'b', 'c'),
    host: fc.constantFrom('x.example.com', 'y.example.com', 'z.y.example.com'),
    path: fc.constantFrom('', '/', '/sub'),
    wild: fc.boolean(),
    termination: fc.constantFrom('edge', 'passthrough', null),
    created: fc.nat(3),
  });
  fc.assert(
    fc.property(fc.array(asked, { maxLength: 12 }), (all) => {
      const routes = all.map(({ namespace, host, path, wild, termination, created }, index) =>
        claim(`${namespace}/r${index}`, created, {
          host,
          path,
          wildcardPolicy: wild ? 'Subdomain' : 'None',
          tls: termination === null ? null : { termination },
        }),
      );
      const admitted = outcome(routes, allowing()).routes;
      for (const one of admitted) {
        for (const other of admitted) {
          if (one === other) continue;
          const sameHost = one.host === other.host && one.wildcard === other.wildcard;
          const covers = one.wildcard && !other.wildcard && other.host.slice(other.host.indexOf('.') + 1) === one.host;
          if (sameHost || covers) assert.equal(one.namespace, other.namespace);
          if (sameHost) assert.notEqual(one.path, other.path);
          if (sameHost && one.termination === 'passthrough') assert.equal(other.termination, 'http');
        }
      }
    }),
    { numRuns: cases(500, 5_000) },
  );
});
