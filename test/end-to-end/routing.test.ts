// What clients and pods see of a route: real HAProxy on rendered files, small servers as pods, one test for each promise.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener, request as httpRequest } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { createServer as createHttpsServer, request as httpsRequest } from 'node:https';
import { after, before, describe, test } from 'node:test';
import { connect as connectTls, type PeerCertificate } from 'node:tls';
import { spawn } from 'node:child_process';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import type { Server } from 'node:net';
import { join } from 'node:path';
import type { AdmittedRoute } from '../../functions/router/configuration.ts';
import type { EndpointPort, Endpoints } from '../../shared/endpoint.ts';
import { until } from '../fixtures/poll.ts';
import { freePorts, noHaproxy, untilListening, whileServing, writeFolder } from '../fixtures/run-haproxy.ts';
import { behind, composed, configuration, endpoint, endpointsOf, options, route, selfSigned } from '../functions/router/fixtures.ts';

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** What the pod saw; null when the answer is HAProxy's own. */
  readonly seen: { readonly url: string; readonly headers: IncomingHttpHeaders; readonly pod: string } | null;
}

/** What `http.request` needs besides the host that is asked for. */
interface Ask {
  readonly path?: string;
  readonly host: string;
  readonly headers?: Record<string, string>;
  readonly localAddress?: string;
  /** What TLS names, when it is not the host. */
  readonly servername?: string;
}

describe('a route as clients and pods see it', { skip: noHaproxy, timeout: 60_000 }, () => {
  const servers: Server[] = [];
  const ports = { http: 0, https: 0, stats: 0, plainPod: 0, otherPod: 0, tlsPod: 0 };
  const pem = { standard: '', a: '', b: '', shared: '', pod: '' };

  before(async () => {
    [pem.standard, pem.a, pem.b, pem.shared, pem.pod] = await Promise.all([
      selfSigned('default.test'),
      selfSigned('a.test', 'b.test', 'p.test', 'plain.test'),
      selfSigned('b.test'),
      selfSigned('s1.test', 's2.test'),
      selfSigned('tls.ns.svc', 'p.test'),
    ]);
    ports.plainPod = await listen(servers, createServer(echo('plain')));
    ports.otherPod = await listen(servers, createServer(echo('other')));
    ports.tlsPod = await listen(servers, createHttpsServer({ cert: pem.pod, key: pem.pod }, echo('tls')));
    const [http = 0, https = 0, stats = 0] = await freePorts(3);
    Object.assign(ports, { http, https, stats });
  });
  after(() => servers.forEach((server) => server.close()));

  const certificate = (name: 'a' | 'b' | 'shared') => ({ path: `certificates/${name}.pem`, fingerprint: name.padEnd(64, '0') });
  const portOf = (port: number): EndpointPort => ({ name: 'web', port, protocol: 'TCP', appProtocol: null });

  const pods = (): Endpoints =>
    endpointsOf(
      behind('plain', [endpoint('127.0.0.1')], [portOf(ports.plainPod)]),
      behind('other', [endpoint('127.0.0.1')], [portOf(ports.otherPod)]),
      behind('both', [endpoint('127.0.0.1')], [portOf(ports.plainPod), { ...portOf(ports.otherPod), name: 'b' }]),
      behind('tls', [endpoint('127.0.0.1')], [portOf(ports.tlsPod)]),
      behind('renamed', [endpoint('127.0.0.1')], [portOf(ports.tlsPod)]),
    );

  const filesOf = (routes: readonly AdmittedRoute[], destinationCA: string | null = null) =>
    composed(
      configuration(routes, {
        options: options({
          httpPort: ports.http,
          httpsPort: ports.https,
          statsPort: ports.stats,
          statsUser: 'admin',
          allowLoopbackEndpoints: true,
        }),
        defaultDestinationCA: destinationCA,
      }),
      pods(),
      new Map([
        ['router/secrets/stats-password', 'pass "word" $1'],
        ['router/certificates/default.pem', pem.standard],
        ['router/certificates/a.pem', pem.a],
        ['router/certificates/b.pem', pem.b],
        ['router/certificates/shared.pem', pem.shared],
        ['router/certificates/ca-pod.pem', pem.pod],
      ]),
    );

  const serving = (routes: readonly AdmittedRoute[], work: () => Promise<void>, destinationCA: string | null = null): Promise<void> =>
    whileServing(filesOf(routes, destinationCA), ports.http, work);

  const to = (service: string) => ({ services: [{ name: service, weight: 1 }] });
  const overHttp = (asked: Ask): Promise<Answer> => get({ ...asked, port: ports.http, tls: false });
  const overTls = (asked: Ask): Promise<Answer> => get({ ...asked, port: ports.https, tls: true });

  test('pods see the host in lower case, forwarded headers, and nothing that a client may not claim', async () => {
    await serving([route('plain'), route('never', { ...to('plain'), settings: { forwardedHeaders: 'never' } })], async () => {
      const claims = { Proxy: 'http://evil', 'X-SSL-Client-CN': 'root', 'x-ssl': '1', 'X-Forwarded-For': '10.9.9.9' };
      const { status, seen } = await overHttp({ host: 'PLAIN.example.com', path: '/x?y=1', headers: claims });
      assert.equal(status, 200);
      assert.equal(seen?.url, '/x?y=1');
      assert.equal(seen?.headers.host, `plain.example.com`);
      assert.equal(seen?.headers['x-forwarded-for'], '10.9.9.9, 127.0.0.1');
      assert.equal(seen?.headers['x-forwarded-proto'], 'http');
      assert.equal(seen?.headers['x-forwarded-port'], String(ports.http));
      assert.equal(seen?.headers['forwarded'], 'for=127.0.0.1;host=plain.example.com;proto=http');
      assert.deepEqual(
        Object.keys(seen?.headers ?? {}).filter((name) => /^(?:proxy|x-ssl)/.test(name)),
        [],
      );
      const untouched = await overHttp({ host: 'never.example.com' });
      assert.deepEqual(
        Object.keys(untouched.seen?.headers ?? {}).filter((name) => /forwarded/.test(name)),
        [],
      );
    });
  });

  test('nothing found is 503, a redirect leads to https without a port, and a policy of none serves TLS only', async () => {
    const edge = { ...to('plain'), termination: 'edge' } as const;
    await serving(
      [
        route('r', { ...edge, insecure: 'redirect' }),
        route('n', edge),
        route('w', { ...edge, insecure: 'allow', host: 'w.test', wildcard: true }),
      ],
      async () => {
        assert.equal((await overHttp({ host: 'unknown.test' })).status, 503);
        const redirect = await overHttp({ host: 'R.example.com:8080', path: '/a%20b?c=d' });
        assert.deepEqual([redirect.status, redirect.headers.location], [302, 'https://r.example.com/a%20b?c=d']);
        assert.equal((await overHttp({ host: 'n.example.com' })).status, 503);
        assert.equal((await overTls({ host: 'n.example.com' })).seen?.headers['x-forwarded-proto'], 'https');
        assert.equal((await overTls({ host: 'x.w.test' })).status, 200);
        assert.equal((await overTls({ host: 'x.y.w.test' })).status, 503);
        assert.equal((await overHttp({ host: 'x.w.test' })).status, 200);
      },
    );
  });

  test('each host gets its certificate, and HTTP/2 only when no other host shares it', async () => {
    const edge = { ...to('plain'), termination: 'edge' } as const;
    const routes = [
      route('a', { ...edge, host: 'a.test', certificate: certificate('a') }),
      route('s1', { ...edge, host: 's1.test', certificate: certificate('shared') }),
      route('s2', { ...edge, host: 's2.test', certificate: certificate('shared') }),
      route('sole', { ...edge, host: 'sole.test' }),
    ];
    await serving(routes, async () => {
      const shown = async (host: string) => handshake(ports.https, host);
      assert.deepEqual(await shown('a.test'), { names: 'DNS:a.test, DNS:b.test, DNS:p.test, DNS:plain.test', protocol: 'h2' });
      assert.deepEqual(await shown('s1.test'), { names: 'DNS:s1.test, DNS:s2.test', protocol: 'http/1.1' });
      assert.deepEqual(await shown('sole.test'), { names: 'DNS:default.test', protocol: 'h2' });
      assert.deepEqual(await shown('unknown.test'), { names: 'DNS:default.test', protocol: 'http/1.1' });
      assert.deepEqual(await shown(''), { names: 'DNS:default.test', protocol: 'http/1.1' });
    });
    await serving([...routes, route('second', { ...edge, host: 'second.test' })], async () => {
      assert.deepEqual(await handshake(ports.https, 'sole.test'), { names: 'DNS:default.test', protocol: 'http/1.1' });
    });
  });

  test('over HTTP/2 a host with another certificate is answered 421, over HTTP/1.1 the host decides', async () => {
    const edge = { ...to('plain'), termination: 'edge' } as const;
    const routes = [
      route('a', { ...edge, host: 'a.test', certificate: certificate('a') }),
      route('b', { ...edge, host: 'b.test', certificate: certificate('b') }),
      route('p', { ...to('tls'), termination: 'passthrough', host: 'p.test' }),
      route('plain', { ...edge, host: 'plain.test' }),
      route('w', { ...edge, host: 'w.test', wildcard: true, certificate: certificate('shared') }),
    ];
    await serving(routes, async () => {
      const status = (connection: string, host: string) => http2Status(ports.https, connection, host);
      assert.equal(await status('a.test', 'a.test'), 200);
      assert.equal(await status('a.test', 'A.test:443'), 200);
      assert.equal(await status('a.test', 'b.test'), 421);
      assert.equal(await status('a.test', 'p.test'), 421);
      assert.equal(await status('a.test', 'plain.test'), 421);
      assert.equal(await status('a.test', 'x.w.test'), 421);
      assert.equal(await status('a.test', 'unknown.test'), 503);
      assert.equal(await status('x.w.test', 'y.w.test'), 200);
      assert.equal(await status('x.w.test', 'a.test'), 421);
      assert.equal(await status('plain.test', 'a.test'), 421);
      assert.equal((await overTls({ host: 'b.test', servername: 'a.test' })).status, 200);
    });
  });

  test('passthrough leaves TLS to the pod, for a wildcard too, and redirects plain requests', async () => {
    const routes = [
      route('p', { ...to('tls'), termination: 'passthrough', insecure: 'redirect', host: 'p.test' }),
      route('w', { ...to('tls'), termination: 'passthrough', wildcard: true, host: 'w.test' }),
    ];
    await serving(routes, async () => {
      for (const host of ['p.test', 'P.test', 'x.w.test']) assert.equal((await overTls({ host })).seen?.pod, 'tls', host);
      assert.equal((await handshake(ports.https, 'p.test')).names, 'DNS:tls.ns.svc, DNS:p.test');
      assert.equal((await handshake(ports.https, 'x.y.w.test')).names, 'DNS:default.test');
      assert.equal((await overHttp({ host: 'p.test', path: '/x' })).headers.location, 'https://p.test/x');
    });
  });

  test('reencrypt verifies the pod with the route’s CA, or the default one and the service’s name', async () => {
    const reencrypt = { ...to('tls'), termination: 'reencrypt' } as const;
    const routes = [
      route('own', { ...reencrypt, destinationCA: 'certificates/ca-pod.pem' }),
      route('wrong', { ...reencrypt, destinationCA: 'certificates/b.pem' }),
      route('standard', reencrypt),
      route('misnamed', { ...reencrypt, ...to('renamed') }),
    ];
    await serving(
      routes,
      async () => {
        assert.equal((await overTls({ host: 'own.example.com' })).seen?.pod, 'tls');
        assert.equal((await overTls({ host: 'wrong.example.com' })).status, 503);
        assert.equal((await overTls({ host: 'standard.example.com' })).seen?.pod, 'tls');
        assert.equal((await overTls({ host: 'misnamed.example.com' })).status, 503);
      },
      'certificates/ca-pod.pem',
    );
    await serving(routes, async () => assert.equal((await overTls({ host: 'standard.example.com' })).status, 503), 'certificates/a.pem');
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
    ];
    await serving(
      cases.map(([rewriting]) => rewriting),
      async () => {
        for (const [{ host }, paths] of cases) {
          for (const [path, wanted] of Object.entries(paths))
            assert.equal((await overHttp({ host, path })).seen?.url, wanted, `${host}${path}`);
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
    await serving(routes, async () => {
      const statuses = await Promise.all(
        ['in', 'out', 'nobody'].map(async (name) => (await overHttp({ host: `${name}.example.com` })).status),
      );
      assert.deepEqual(statuses, [200, 403, 403]);
      assert.equal((await overTls({ host: 'pin.example.com' })).status, 200);
      await assert.rejects(overTls({ host: 'pout.example.com' }));
    });
  });

  test('rates hold for each address', async () => {
    const limited = route('limited', { ...to('plain'), settings: { rateLimit: { concurrentTcp: null, rateTcp: null, rateHttp: 3 } } });
    await serving([limited], async () => {
      const statuses: number[] = [];
      for (let count = 0; count < 5; count++) statuses.push((await overHttp({ host: limited.host })).status);
      assert.deepEqual(statuses, [200, 200, 200, 429, 429]);
      assert.equal((await overHttp({ host: limited.host, localAddress: '127.0.0.2' })).status, 200);
    });
  });

  test('a cookie keeps a client with its pod; a weight of 0 keeps its clients and gets no new ones', async () => {
    const both = [
      { name: 'plain', weight: 1 },
      { name: 'other', weight: 0 },
    ];
    const routes = [
      route('sticky', to('both')),
      route('edge', { ...to('both'), termination: 'edge', path: '/p', settings: { cookieSameSite: 'Lax' } }),
      route('draining', { services: both, settings: { cookieName: 'pod' } }),
      route('drained', { services: [{ name: 'other', weight: 1 }], settings: { cookieName: 'pod' } }),
    ];
    await serving(routes, async () => {
      const first = await overHttp({ host: 'sticky.example.com' });
      const cookie = cookieOf(first);
      assert.match(cookie, /^HEADGATE=[0-9a-f]+; path=\/; HttpOnly$/);
      for (let count = 0; count < 6; count++) {
        const again = await overHttp({ host: 'sticky.example.com', headers: { Cookie: cookie.split(';')[0] ?? '' } });
        assert.equal(again.seen?.pod, first.seen?.pod);
      }
      assert.match(
        cookieOf(await overTls({ host: 'edge.example.com', path: '/p' })),
        /^HEADGATE_[0-9a-f]{16}=\S+; path=\/; HttpOnly; Secure; SameSite=Lax$/,
      );
      assert.equal((await overHttp({ host: 'draining.example.com' })).seen?.pod, 'plain');
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
    await serving([edited], async () => {
      const answer = await overTls({ host: edited.host, headers: { 'X-In': 'ABC' } });
      assert.equal(answer.seen?.headers['x-literal'], `"q" 'a' \\ $HOME \${x} # 100% abc`);
      assert.equal(answer.seen?.headers['x-in'], undefined);
      assert.equal(answer.headers["x-it's$"], Buffer.from('plain').toString('base64'));
      assert.equal(answer.headers['strict-transport-security'], 'max-age=31536000;includeSubDomains');
      assert.equal((await overHttp({ host: edited.host })).headers['strict-transport-security'], undefined);
    });
  });

  test('statistics need the password, health does not', async () => {
    await serving([], async () => {
      const status = async (headers: Record<string, string>, path = '/') =>
        (await get({ host: 'stats', path, headers, port: ports.stats, tls: false })).status;
      assert.equal(await status({}), 401);
      assert.equal(await status({ Authorization: `Basic ${Buffer.from('admin:pass "word" $1').toString('base64')}` }), 200);
      assert.equal(await status({}, '/healthz'), 200);
    });
  });

  test('under a master whose working directory is a symlink, a reload serves the folder that it leads to now', async () => {
    const state = await writeFolder(new Map());
    const edge = (service: string) => route('edge', { ...to(service), termination: 'edge' });
    const generation = async (name: string, service: string) => {
      const folder = await writeFolder(filesOf([edge(service)]));
      await rename(folder, join(state, name));
      await symlink(join(state, name, 'router'), join(state, 'next'));
      await rename(join(state, 'next'), join(state, 'current'));
    };
    await generation('first', 'plain');
    const socketFolder = join(state, 'run');
    await mkdir(socketFolder);
    await writeFile(join(state, 'local.cfg'), `global\n  presetenv HEADGATE_RUN ${socketFolder}\n`);
    const words = ['-W', '-S', join(state, 'master.sock'), '-C', join(state, 'current'), '-f', join(state, 'local.cfg'), '-f', 'config'];
    const master = spawn('haproxy', words, { stdio: ['ignore', 'ignore', 'pipe'] });
    try {
      await untilListening(master, ports.http);
      assert.equal((await overTls({ host: 'edge.example.com' })).seen?.pod, 'plain');
      await generation('second', 'other');
      master.kill('SIGUSR2');
      await until(
        'the second generation serves',
        async () => (await overTls({ host: 'edge.example.com' }).catch(() => null))?.seen?.pod === 'other',
      );
    } finally {
      master.kill('SIGTERM');
      if (master.exitCode === null) await once(master, 'exit');
      await rm(state, { recursive: true });
    }
  });
});

function echo(pod: string): RequestListener {
  return (request, response) => {
    response.setHeader('X-Pod', pod);
    response.end(JSON.stringify({ url: request.url, headers: request.headers, pod }));
  };
}

async function listen(servers: Server[], server: Server): Promise<number> {
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/** One request on a connection of its own. */
async function get(asked: Ask & { readonly port: number; readonly tls: boolean }): Promise<Answer> {
  const { host, path, port, tls, localAddress, headers, servername } = asked;
  const request = (tls ? httpsRequest : httpRequest)({
    host: '127.0.0.1',
    port,
    path,
    headers: { ...headers, host },
    agent: false,
    ...(localAddress === undefined ? {} : { localAddress }),
    ...(tls ? { servername: servername ?? host, rejectUnauthorized: false } : {}),
  });
  request.end();
  const [response] = await once(request, 'response');
  let body = '';
  for await (const chunk of response) body += String(chunk);
  const own = response.headers['x-pod'] === undefined;
  return { status: response.statusCode, headers: response.headers, seen: own ? null : JSON.parse(body) };
}

function cookieOf({ headers }: Answer): string {
  return headers['set-cookie']?.[0] ?? '';
}

async function handshake(
  port: number,
  servername: string,
): Promise<{ readonly names: string | undefined; readonly protocol: string | false | null }> {
  const socket = connectTls({ host: '127.0.0.1', port, servername, rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] });
  try {
    await once(socket, 'secureConnect');
    const certificate: PeerCertificate = socket.getPeerCertificate();
    return { names: certificate.subjectaltname, protocol: socket.alpnProtocol };
  } finally {
    socket.destroy();
  }
}

async function http2Status(port: number, servername: string, authority: string): Promise<number | undefined> {
  const session = connectHttp2(`https://127.0.0.1:${port}`, { servername, rejectUnauthorized: false });
  try {
    const stream = session.request({ ':path': '/', ':authority': authority });
    const [headers] = await once(stream, 'response');
    return headers[':status'];
  } finally {
    session.destroy();
  }
}
