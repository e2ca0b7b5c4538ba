import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backendName, routeBackend } from '../../../functions/router/backend.ts';
import { options, route } from './fixtures.ts';

const two = [
  { name: 'a', weight: 1 },
  { name: 'b', weight: 2 },
];

test('a backend is named by termination, namespace and name', () => {
  const names = (['http', 'edge', 'reencrypt', 'passthrough'] as const).map((termination) => backendName(route('a', { termination })));
  assert.deepEqual(names, ['be_http:ns:a', 'be_edge_http:ns:a', 'be_secure:ns:a', 'be_tcp:ns:a']);
  assert.notEqual(backendName(route('a b')), backendName(route('a_b')));
  assert.match(backendName(route('a b\n')), /^[A-Za-z0-9_.:-]+$/);
});

test('weighted services are balanced by round robin, unless the route says otherwise', () => {
  const balance = (...changed: Parameters<typeof route>) => routeBackend(route(...changed), options({ tcpBalance: 'leastconn' })).balance;
  assert.equal(balance('a'), 'random');
  assert.equal(balance('a', { services: two }), 'roundrobin');
  assert.equal(balance('a', { services: [...two.slice(0, 1), { name: 'b', weight: 0 }] }), 'random');
  assert.equal(balance('a', { services: two, settings: { balance: 'leastconn' } }), 'leastconn');
  assert.equal(balance('a', { termination: 'passthrough' }), 'leastconn');
  assert.equal(routeBackend(route('a', { termination: 'passthrough' }), options()).balance, 'source');
});

test('a passthrough route’s timeout is that of its tunnel', () => {
  const timeouts = (...changed: Parameters<typeof route>) => {
    const { serverTimeout, tunnelTimeout } = routeBackend(route(...changed), options());
    return [serverTimeout, tunnelTimeout];
  };
  const passthrough = { termination: 'passthrough' } as const;
  assert.deepEqual(timeouts('a', { settings: { timeoutServer: 1 } }), [1, null]);
  assert.deepEqual(timeouts('a', { ...passthrough, settings: { timeoutServer: 1 } }), [null, 1]);
  assert.deepEqual(timeouts('a', { ...passthrough, settings: { timeoutServer: 1, timeoutTunnel: 2 } }), [null, 2]);
});

test('cookies: the annotation’s name, else fixed without a path and told apart with one; secure when only TLS gets there', () => {
  const cookie = (...changed: Parameters<typeof route>) => routeBackend(route(...changed), options()).cookie;
  const edge = { termination: 'edge' } as const;
  assert.deepEqual([cookie('a')?.name, cookie('b')?.name], ['HEADGATE', 'HEADGATE']);
  assert.match(cookie('a', { path: '/x' })?.name ?? '', /^HEADGATE_[0-9a-f]{16}$/);
  assert.notEqual(cookie('a', { path: '/x' })?.name, cookie('b', { path: '/x' })?.name);
  assert.equal(cookie('a', { settings: { cookieName: 'mine' } })?.name, 'mine');
  assert.notEqual(cookie('a')?.key, cookie('b')?.key);
  assert.equal(cookie('a', { settings: { disableCookies: true } }), null);
  assert.equal(cookie('a', { termination: 'passthrough' }), null);
  const attributes = (...changed: Parameters<typeof route>) => [cookie(...changed)?.secure, cookie(...changed)?.sameSite];
  assert.deepEqual(attributes('a'), [false, null]);
  assert.deepEqual(attributes('a', edge), [true, 'None']);
  assert.deepEqual(attributes('a', { ...edge, insecure: 'allow' }), [false, null]);
  assert.deepEqual(attributes('a', { ...edge, settings: { cookieSameSite: 'Strict' } }), [true, 'Strict']);
  assert.deepEqual(attributes('a', { settings: { cookieSameSite: 'None' } }), [false, null]);
});
