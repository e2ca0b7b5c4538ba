// What clients and pods see of a route: real HAProxy on rendered files, one test for each promise.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { AdmittedRoute } from '../../functions/router/configuration.ts';
import { cookieOf, get } from '../fixtures/clients.ts';
import { noHaproxy } from '../fixtures/run-haproxy.ts';
import { route } from '../functions/router/fixtures.ts';
import { openRouter, type RouterUnderTest, STATS_PASSWORD, to } from './router-under-test.ts';

describe('a route as clients and pods see it', { skip: noHaproxy, timeout: 60_000 }, () => {
  let router: RouterUnderTest;
  before(async () => {
    router = await openRouter();
  });
  after(() => router.close());

  test('pods see the host in lower case, forwarded headers, and nothing that a client may not claim', async () => {
    await router.serving([route('plain'), route('never', { ...to('plain'), settings: { forwardedHeaders: 'never' } })], async () => {
      const claims = { Proxy: 'http://evil', 'X-SSL-Client-CN': 'root', 'x-ssl': '1', 'X-Forwarded-For': '10.9.9.9' };
      const { status, seen } = await router.overHttp({ host: 'PLAIN.example.com', path: '/x?y=1', headers: claims });
      assert.equal(status, 200);
      assert.equal(seen?.url, '/x?y=1');
      assert.equal(seen?.headers.host, `plain.example.com`);
      assert.equal(seen?.headers['x-forwarded-for'], '10.9.9.9, 127.0.0.1');
      assert.equal(seen?.headers['x-forwarded-proto'], 'http');
      assert.equal(seen?.headers['x-forwarded-port'], String(router.ports.http));
      assert.equal(seen?.headers['forwarded'], 'for=127.0.0.1;host=plain.example.com;proto=http');
      assert.deepEqual(
        Object.keys(seen?.headers ?? {}).filter((name) => /^(?:proxy|x-ssl)/.test(name)),
        [],
      );
      const untouched = await router.overHttp({ host: 'never.example.com' });
      assert.deepEqual(
        Object.keys(untouched.seen?.headers ?? {}).filter((name) => /forwarded/.test(name)),
        [],
      );
    });
  });

  test('names of headers reach pods in lower case, or as old servers know them', async () => {
    await router.serving([route('plain'), route('old', { ...to('plain'), settings: { h1AdjustCase: true } })], async () => {
      const names = async (host: string) => (await router.overHttp({ host, headers: { 'content-TYPE': 'text/plain' } })).seen?.names ?? [];
      assert.ok((await names('plain.example.com')).includes('content-type'));
      const adjusted = await names('old.example.com');
      for (const name of ['Content-Type', 'Host', 'X-Forwarded-For']) assert.ok(adjusted.includes(name), name);
    });
  });

  test('nothing found is 503, a redirect leads to https without a port, and a policy of none serves TLS only', async () => {
    const edge = { ...to('plain'), termination: 'edge' } as const;
    await router.serving(
      [
        route('r', { ...edge, insecure: 'redirect' }),
        route('n', edge),
        route('w', { ...edge, insecure: 'allow', host: 'w.test', wildcard: true }),
      ],
      async () => {
        assert.equal((await router.overHttp({ host: 'unknown.test' })).status, 503);
        const redirect = await router.overHttp({ host: 'R.example.com:8080', path: '/a%20b?c=d' });
        assert.deepEqual([redirect.status, redirect.headers.location], [302, 'https://r.example.com/a%20b?c=d']);
        assert.equal((await router.overHttp({ host: 'n.example.com' })).status, 503);
        assert.equal((await router.overTls({ host: 'n.example.com' })).seen?.headers['x-forwarded-proto'], 'https');
        assert.equal((await router.overTls({ host: 'x.w.test' })).status, 200);
        assert.equal((await router.overTls({ host: 'x.y.w.test' })).status, 503);
        assert.equal((await router.overHttp({ host: 'x.w.test' })).status, 200);
      },
    );
  });

  test('the path is rewritten as promised, whatever is in it', async () => {
    const rewritten = (name: string, path: string, rewriteTarget: string) =>
      route(name, { ...to('plain'), path, settings: { rewriteTarget } });
    const cases: readonly [AdmittedRoute, Record<string, string>][] = [
      [
        rewritten('a', '/foo', '/'),
        { '/foo': '/', '/foo/': '/', '/foo/x': '/x', '/foo/x/?q=/foo': '/x/?q=/foo', '/foo?q': '/?q', '/foo//x': '//x' },
      ],
      [rewritten('b', '/foo', '/bar'), { '/foo': '/bar', '/foo/': '/bar/', '/foo/x': '/bar/x' }],
      [rewritten('c', '/foo/', '/'), { '/foo/': '/', '/foo/x': '/x' }],
      [rewritten('d', '', '/bar'), { '/': '/bar/', '/x?y': '/bar/x?y' }],
      [rewritten('e', '', '/'), { '/': '/', '/x': '/x' }],
      [rewritten('f', '/a.*"(', '/%41"\\1$x\''), { '/a.*"(/y': '/%41"\\1$x\'/y' }],
      [rewritten('g', '/s', '/é'), { '/s/x': '/%C3%A9/x' }],
      [rewritten('h', '/é', '/z'), { '/%C3%A9/x': '/z/x' }],
    ];
    await router.serving(
      cases.map(([rewriting]) => rewriting),
      async () => {
        for (const [{ host }, paths] of cases) {
          for (const [path, wanted] of Object.entries(paths))
            assert.equal((await router.overHttp({ host, path })).seen?.url, wanted, `${host}${path}`);
        }
      },
    );
  });

  test('an allow-list denies all others, an empty one everybody, also on passthrough', async () => {
    const many = Array.from({ length: 200 }, (_, index) => `10.0.${index}.0/24`);
    const listed = (name: string, allowList: readonly string[]) => route(name, { ...to('plain'), settings: { allowList } });
    const passing = (name: string, allowList: readonly string[]) =>
      route(name, { ...to('tls'), termination: 'passthrough', settings: { allowList } });
    const routes = [
      listed('in', [...many, '127.0.0.0/8']),
      listed('out', many),
      listed('nobody', []),
      passing('pin', ['127.0.0.1']),
      passing('pout', many),
    ];
    await router.serving(routes, async () => {
      const statuses = await Promise.all(
        ['in', 'out', 'nobody'].map(async (name) => (await router.overHttp({ host: `${name}.example.com` })).status),
      );
      assert.deepEqual(statuses, [200, 403, 403]);
      assert.equal((await router.overTls({ host: 'pin.example.com' })).status, 200);
      await assert.rejects(router.overTls({ host: 'pout.example.com' }));
    });
  });

  test('rates hold for each address', async () => {
    const limited = route('limited', { ...to('plain'), settings: { rateLimit: { concurrentTcp: null, rateTcp: null, rateHttp: 3 } } });
    await router.serving([limited], async () => {
      const statuses: number[] = [];
      for (let count = 0; count < 5; count++) statuses.push((await router.overHttp({ host: limited.host })).status);
      assert.deepEqual(statuses, [200, 200, 200, 429, 429]);
      assert.equal((await router.overHttp({ host: limited.host, localAddress: '127.0.0.2' })).status, 200);
    });
  });

  test('a cookie keeps a client with its pod, and comes with the attributes that the route asks for', async () => {
    const routes = [
      route('sticky', to('both')),
      route('edge', { ...to('both'), termination: 'edge', path: '/p', settings: { cookieSameSite: 'Lax' } }),
    ];
    await router.serving(routes, async () => {
      const first = await router.overHttp({ host: 'sticky.example.com' });
      assert.match(cookieOf(first), /^HEADGATE=[0-9a-f]+; path=\/; HttpOnly$/);
      for (let count = 0; count < 6; count++) {
        const again = await router.overHttp({ host: 'sticky.example.com', headers: { Cookie: cookieOf(first) } });
        assert.equal(again.seen?.pod, first.seen?.pod);
      }
      const attributes = /^HEADGATE_[0-9a-f]{16}=\S+; path=\/; HttpOnly; Secure; SameSite=Lax$/;
      assert.match(cookieOf(await router.overTls({ host: 'edge.example.com', path: '/p' })), attributes);
    });
  });

  test('a service with a weight of 0 keeps the clients that it has, across restarts, and gets no new ones', async () => {
    const weighted = (plain: number, other: number) =>
      route('moving', {
        services: [
          { name: 'plain', weight: plain },
          { name: 'other', weight: other },
        ],
      });
    let cookie = '';
    await router.serving([weighted(0, 1)], async () => {
      const answer = await router.overHttp({ host: 'moving.example.com' });
      assert.equal(answer.seen?.pod, 'other');
      cookie = cookieOf(answer);
    });
    await router.serving([weighted(1, 0)], async () => {
      assert.equal((await router.overHttp({ host: 'moving.example.com', headers: { Cookie: cookie } })).seen?.pod, 'other');
      assert.equal((await router.overHttp({ host: 'moving.example.com' })).seen?.pod, 'plain');
    });
    await router.serving([weighted(0, 0)], async () => {
      assert.equal((await router.overHttp({ host: 'moving.example.com' })).status, 503);
      assert.equal((await router.overHttp({ host: 'moving.example.com', headers: { Cookie: cookie } })).seen?.pod, 'other');
    });
  });

  test('headers are edited as written, and HSTS is sent over TLS only', async () => {
    const edited = route('edited', {
      ...to('plain'),
      termination: 'edge',
      insecure: 'allow',
      settings: {
        hsts: 'max-age=31536000;includeSubDomains',
        headerEdits: [
          { direction: 'request', name: 'X-Literal', action: 'set', value: `"q" 'a' \\ $HOME \${x} # 100%% %[req.hdr(X-In),lower]` },
          { direction: 'request', name: 'X-In', action: 'delete' },
          { direction: 'response', name: "X-It's$", action: 'set', value: '%[res.hdr(X-Pod),base64]' },
        ],
      },
    });
    await router.serving([edited], async () => {
      const answer = await router.overTls({ host: edited.host, headers: { 'X-In': 'ABC' } });
      assert.equal(answer.seen?.headers['x-literal'], `"q" 'a' \\ $HOME \${x} # 100% abc`);
      assert.equal(answer.seen?.headers['x-in'], undefined);
      assert.equal(answer.headers["x-it's$"], Buffer.from('plain').toString('base64'));
      assert.equal(answer.headers['strict-transport-security'], 'max-age=31536000;includeSubDomains');
      assert.equal((await router.overHttp({ host: edited.host })).headers['strict-transport-security'], undefined);
    });
  });

  test('statistics need the password, health does not', async () => {
    await router.serving([], async () => {
      const status = async (headers: Record<string, string>, path = '/') =>
        (await get({ host: 'stats', path, headers, port: router.ports.stats, tls: false })).status;
      assert.equal(await status({}), 401);
      assert.equal(await status({ Authorization: `Basic ${Buffer.from(`admin:${STATS_PASSWORD}`).toString('base64')}` }), 200);
      assert.equal(await status({}, '/healthz'), 200);
    });
  });
});
