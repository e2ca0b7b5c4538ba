import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { buildRouter } from '../../../functions/router/build.ts';
import type { AdmittedRoute } from '../../../functions/router/configuration.ts';
import type { MapName } from '../../../functions/router/state.ts';
import { configuration, options, route } from './fixtures.ts';

const lines = (map: MapName, routes: readonly AdmittedRoute[]) =>
  buildRouter(configuration(routes), new Map()).maps[map].map(({ key, value }) => `${key} ${value}`);

const certificate = (name: string) => ({ path: `certificates/${name}.pem`, fingerprint: name });
const edge = { termination: 'edge' } as const;

describe('keys', () => {
  test('a path has keys for itself and for what is below it', () => {
    assert.deepEqual(lines('http', [route('a', { host: 'h', path: '' })]), ['h/ be_http:ns:a', 'h? be_http:ns:a']);
    assert.deepEqual(lines('http', [route('a', { host: 'h', path: '/s' })]), ['h/s/ be_http:ns:a', 'h/s? be_http:ns:a']);
    assert.deepEqual(lines('http', [route('a', { host: 'h', path: '/s/' })]), ['h/s/ be_http:ns:a']);
    assert.deepEqual(lines('http', [route('a', { host: 'h', path: '/é/' })]), ['h/%C3%A9/ be_http:ns:a']);
    assert.deepEqual(lines('http', [route('a', { host: 'h', wildcard: true })]), ['*.h/ be_http:ns:a', '*.h? be_http:ns:a']);
  });

  test('the path that ends with a slash owns what is below it, in whatever order the routes stand', () => {
    const both = [route('a', { host: 'h', path: '/s' }), route('b', { host: 'h', path: '/s/' })];
    const expected = ['h/s/ be_http:ns:b', 'h/s? be_http:ns:a'];
    assert.deepEqual(lines('http', both), expected);
    assert.deepEqual(lines('http', both.toReversed()), expected);
  });

  test('each frontend knows what it serves', () => {
    const routes = [
      route('http', { host: 'a' }),
      route('none', { ...edge, host: 'b' }),
      route('allow', { ...edge, host: 'c', insecure: 'allow' }),
      route('redirect', { termination: 'reencrypt', host: 'd', insecure: 'redirect' }),
      route('pass', { termination: 'passthrough', host: 'e', insecure: 'redirect' }),
      route('wild', { termination: 'passthrough', host: 'f', wildcard: true }),
    ];
    assert.deepEqual(
      lines('http', routes).filter((line) => line.includes('/')),
      ['a/ be_http:ns:http', 'c/ be_edge_http:ns:allow', 'd/ redirect', 'e/ redirect'],
    );
    assert.deepEqual(
      lines('https', routes).filter((line) => line.includes('/')),
      ['b/ be_edge_http:ns:none', 'c/ be_edge_http:ns:allow', 'd/ be_secure:ns:redirect'],
    );
    assert.deepEqual(lines('sni', routes), ['*.f be_tcp:ns:wild', 'e be_tcp:ns:pass']);
    assert.deepEqual(lines('certificate', routes), ['*.f passthrough', 'b default', 'c default', 'd default', 'e passthrough']);
  });
});

describe('certificates', () => {
  const crtList = (routes: readonly AdmittedRoute[], changed = {}) =>
    buildRouter(configuration(routes, { options: options(changed) }), new Map()).crtList.map(
      ({ certificate: path, alpn, host }) => `${path} ${alpn.join()} ${host}`,
    );

  test('HTTP/2 is for a certificate of one host, whatever the number of its paths', () => {
    const one = [
      route('a', { ...edge, host: 'h', certificate: certificate('x') }),
      route('b', { ...edge, host: 'h', path: '/b', certificate: certificate('x') }),
    ];
    assert.deepEqual(crtList(one), ['certificates/x.pem h2,http/1.1 h']);
    assert.deepEqual(crtList(one, { disableHttp2: true }), ['certificates/x.pem http/1.1 h']);
    const renamed = { path: 'certificates/y.pem', fingerprint: 'x' };
    assert.deepEqual(crtList([...one, route('c', { ...edge, host: 'i', certificate: renamed })]), [
      'certificates/x.pem http/1.1 h',
      'certificates/y.pem http/1.1 i',
    ]);
  });

  test('the default certificate is listed for a sole host, and for hosts below a wildcard with a certificate of its own', () => {
    const sole = route('a', { ...edge, host: 'a.test' });
    assert.deepEqual(crtList([sole]), ['certificates/default.pem h2,http/1.1 a.test']);
    assert.deepEqual(crtList([sole, route('b', { ...edge, host: 'b.test' })]), []);
    const wildcard = route('w', { ...edge, host: 'test', wildcard: true, certificate: certificate('w') });
    assert.deepEqual(crtList([sole, route('b', { ...edge, host: 'b.test' }), wildcard]), [
      'certificates/w.pem h2,http/1.1 *.test',
      'certificates/default.pem http/1.1 a.test',
      'certificates/default.pem http/1.1 b.test',
    ]);
  });

  test('a host has one: that of the first of its routes that brings one', () => {
    const routes = [
      route('a', { ...edge, host: 'h' }),
      route('b', { ...edge, host: 'h', path: '/b', certificate: certificate('x') }),
      route('c', { ...edge, host: 'h', path: '/c', certificate: certificate('y') }),
      route('p', { host: 'plain' }),
    ];
    assert.deepEqual(crtList(routes), ['certificates/x.pem h2,http/1.1 h']);
    assert.deepEqual(lines('certificate', routes), ['h x']);
  });
});
