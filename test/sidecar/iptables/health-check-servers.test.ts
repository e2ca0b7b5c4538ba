import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get } from 'node:http';
import { createServer, type Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import type { HealthCheck } from '../../../shared/iptables/ruleset.ts';
import { HealthCheckServers } from '../../../sidecar/iptables/health-check-servers.ts';
import { until } from '../../fixtures/poll.ts';

interface Answered {
  readonly status: number;
  readonly weight: string | undefined;
  readonly type: string | undefined;
  readonly body: unknown;
}

/** What answers HTTP there; the error's code when nothing does. */
async function ask(port: number, host = '127.0.0.1'): Promise<Answered | string> {
  return new Promise((resolve, reject) => {
    const request = get({ host, port, agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += String(chunk)));
      response.on('end', () => {
        const { 'x-load-balancing-endpoint-weight': weight, 'content-type': type } = response.headers;
        resolve({ status: response.statusCode ?? 0, weight: String(weight), type, body: JSON.parse(text) });
      });
    });
    request.on('error', (error) => ('code' in error ? resolve(String(error.code)) : reject(error)));
  });
}

function check(port: number, localEndpoints: number, changes: Partial<HealthCheck> = {}): HealthCheck {
  return { address: '127.0.0.1', port, namespace: 'ns1', name: 'web', localEndpoints, ...changes };
}

async function occupied(port = 0): Promise<{ readonly port: number; readonly server: Server }> {
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { port: address.port, server };
}

async function freed(server: Server): Promise<void> {
  server.close();
  await once(server, 'close');
}

async function freePort(): Promise<number> {
  const { port, server } = await occupied();
  await freed(server);
  return port;
}

function serversOf(t: TestContext, retryMs?: number): { readonly servers: HealthCheckServers; readonly logged: string[] } {
  const logged: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line: string) => logged.push(line) });
  const servers = new HealthCheckServers(logger, retryMs);
  t.after(() => servers.close());
  return { servers, logged };
}

test('the answer is that of kube-proxy, and follows the endpoints', async (t) => {
  const { servers } = serversOf(t);
  const port = await freePort();
  await servers.show([check(port, 2)]);
  const body = { service: { namespace: 'ns1', name: 'web' }, localEndpoints: 2, serviceProxyHealthy: true };
  assert.deepEqual(await ask(port), { status: 200, weight: '2', type: 'application/json', body });
  await servers.show([check(port, 0)]);
  assert.deepEqual(await ask(port), { status: 503, weight: '0', type: 'application/json', body: { ...body, localEndpoints: 0 } });
  await servers.show([check(port, 1, { name: 'other' })]);
  assert.deepEqual(await ask(port), {
    status: 200,
    weight: '1',
    type: 'application/json',
    body: { ...body, service: { namespace: 'ns1', name: 'other' }, localEndpoints: 1 },
  });
});

test('ports that are no longer wanted are closed, and all at the end', async (t) => {
  const { servers } = serversOf(t);
  const [first, second] = [await freePort(), await freePort()];
  await servers.show([check(first, 1), check(second, 1)]);
  await servers.show([check(second, 1)]);
  assert.equal(await ask(first), 'ECONNREFUSED');
  assert.notEqual(await ask(second), 'ECONNREFUSED');
  await servers.close();
  assert.equal(await ask(second), 'ECONNREFUSED');
});

test('a port that is taken is told once, tried again, and does not keep the others waiting', async (t) => {
  const { servers, logged } = serversOf(t, 5);
  const taken = await occupied();
  const free = await freePort();
  await servers.show([check(taken.port, 1), check(free, 1)]);
  assert.notEqual(await ask(free), 'ECONNREFUSED');
  await servers.show([check(taken.port, 3), check(free, 1)]);
  await freed(taken.server);
  await until('the port answers', async () => {
    const answered = await ask(taken.port);
    return typeof answered === 'object' && answered.weight === '3';
  });
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? '', new RegExp(`ns1/web.*127\\.0\\.0\\.1:${taken.port}.*another program listens there`));
});

test('both families are answered each by itself', async (t) => {
  const { servers, logged } = serversOf(t);
  const port = await freePort();
  await servers.show([check(port, 1, { address: '0.0.0.0' }), check(port, 4, { address: '::' })]);
  const answers = [await ask(port), await ask(port, '::1')];
  if (logged.length > 0) return t.skip('no IPv6 on this machine');
  assert.deepEqual(
    answers.map((answered) => (typeof answered === 'object' ? answered.weight : answered)),
    ['1', '4'],
  );
});
