// Who decrypts, with which certificate, and what is verified: real HAProxy on rendered files.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { handshake, http2Status } from '../fixtures/clients.ts';
import { until } from '../fixtures/poll.ts';
import { noHaproxy, untilListening, writeFolder } from '../fixtures/run-haproxy.ts';
import { route } from '../functions/router/fixtures.ts';
import { certificate, openRouter, type RouterUnderTest, to } from './router-under-test.ts';

describe('TLS', { skip: noHaproxy, timeout: 60_000 }, () => {
  let router: RouterUnderTest;
  before(async () => {
    router = await openRouter();
  });
  after(() => router.close());

  test('each host gets its certificate, and HTTP/2 only when no other host shares it', async () => {
    const edge = { ...to('plain'), termination: 'edge' } as const;
    const routes = [
      route('a', { ...edge, host: 'a.test', certificate: certificate('a') }),
      route('s1', { ...edge, host: 's1.test', certificate: certificate('shared') }),
      route('s2', { ...edge, host: 's2.test', certificate: certificate('shared') }),
      route('sole', { ...edge, host: 'sole.test' }),
    ];
    await router.serving(routes, async () => {
      const shown = async (host: string) => handshake(router.ports.https, host);
      assert.deepEqual(await shown('a.test'), { names: 'DNS:a.test, DNS:b.test, DNS:p.test, DNS:plain.test', protocol: 'h2' });
      assert.deepEqual(await shown('s1.test'), { names: 'DNS:s1.test, DNS:s2.test', protocol: 'http/1.1' });
      assert.deepEqual(await shown('sole.test'), { names: 'DNS:default.test', protocol: 'h2' });
      assert.deepEqual(await shown('unknown.test'), { names: 'DNS:default.test', protocol: 'http/1.1' });
      assert.deepEqual(await shown(''), { names: 'DNS:default.test', protocol: 'http/1.1' });
    });
    await router.serving([...routes, route('second', { ...edge, host: 'second.test' })], async () => {
      assert.deepEqual(await handshake(router.ports.https, 'sole.test'), { names: 'DNS:default.test', protocol: 'http/1.1' });
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
    await router.serving(routes, async () => {
      const status = (connection: string, host: string) => http2Status(router.ports.https, connection, host);
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
      assert.equal((await router.overTls({ host: 'b.test', servername: 'a.test' })).status, 200);
    });
  });

  test('passthrough leaves TLS to the pod, for a wildcard too, and redirects plain requests', async () => {
    const routes = [
      route('p', { ...to('tls'), termination: 'passthrough', insecure: 'redirect', host: 'p.test' }),
      route('w', { ...to('tls'), termination: 'passthrough', wildcard: true, host: 'w.test' }),
    ];
    await router.serving(routes, async () => {
      for (const host of ['p.test', 'P.test', 'x.w.test']) assert.equal((await router.overTls({ host })).seen?.pod, 'tls', host);
      assert.equal((await handshake(router.ports.https, 'p.test')).names, 'DNS:tls.ns.svc, DNS:p.test');
      assert.equal((await handshake(router.ports.https, 'x.y.w.test')).names, 'DNS:default.test');
      assert.equal((await router.overHttp({ host: 'p.test', path: '/x' })).headers.location, 'https://p.test/x');
    });
  });

  test('an exact host that is decrypted here wins over a wildcard that passes through', async () => {
    const routes = [
      route('w', { ...to('tls'), termination: 'passthrough', wildcard: true, host: 'w.test' }),
      route('exact', { ...to('plain'), termination: 'edge', host: 'exact.w.test' }),
    ];
    await router.serving(routes, async () => {
      assert.equal((await router.overTls({ host: 'exact.w.test' })).seen?.pod, 'plain');
      assert.equal((await router.overTls({ host: 'other.w.test' })).seen?.pod, 'tls');
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
    await router.serving(
      routes,
      async () => {
        assert.equal((await router.overTls({ host: 'own.example.com' })).seen?.pod, 'tls');
        assert.equal((await router.overTls({ host: 'wrong.example.com' })).status, 503);
        assert.equal((await router.overTls({ host: 'standard.example.com' })).seen?.pod, 'tls');
        assert.equal((await router.overTls({ host: 'misnamed.example.com' })).status, 503);
      },
      'certificates/ca-pod.pem',
    );
    await router.serving(
      routes,
      async () => assert.equal((await router.overTls({ host: 'standard.example.com' })).status, 503),
      'certificates/a.pem',
    );
  });

  test('under a master whose working directory is a symlink, a reload serves the folder that it leads to now', async () => {
    const state = await writeFolder(new Map());
    const edge = (service: string) => route('edge', { ...to(service), termination: 'edge' });
    const generation = async (name: string, service: string) => {
      const folder = await writeFolder(router.filesOf([edge(service)]));
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
      await untilListening(master, router.ports.http);
      assert.equal((await router.overTls({ host: 'edge.example.com' })).seen?.pod, 'plain');
      await generation('second', 'other');
      master.kill('SIGUSR2');
      await until(
        'the second generation serves',
        async () => (await router.overTls({ host: 'edge.example.com' }).catch(() => null))?.seen?.pod === 'other',
      );
    } finally {
      master.kill('SIGTERM');
      if (master.exitCode === null) await once(master, 'exit');
      await rm(state, { recursive: true });
    }
  });
});
