// A whole sidecar with recording roles against a host over a real WebSocket: what is fetched, kept, applied and reported.

import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { digestOf } from '../../shared/digest.ts';
import { parseSealingKey, sealFile } from '../../shared/seal.ts';
import { MemoryStore } from '../fixtures/memory-store.ts';
import { until } from '../fixtures/poll.ts';
import { APPLIED, FAILED, RecordingRole, REFUSED } from '../fixtures/recording-role.ts';
import { startHost, startNode, temporaryFolder } from '../fixtures/stream-host.ts';

const FIRST = { 'router/config/00-base.cfg': 'one', 'router/state/00': '[]', 'iptables/services/00': '[1]', 'routes/00': 'for people' };
const SECOND = { ...FIRST, 'router/config/00-base.cfg': 'two' };

const routerFiles = (files: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(files).filter(([path]) => path.startsWith('router/')));

async function world(t: TestContext) {
  const folder = await temporaryFolder(t);
  const tokenFile = join(folder, 'token');
  const memory = new MemoryStore();
  const host = await startHost(t, memory.store, tokenFile);
  const router = new RecordingRole('router');
  const proxy = new RecordingRole('service-proxy');
  const node = { addresses: [host.address], state: join(folder, 'state'), tokenFile };
  const publish = (...publication: Parameters<MemoryStore['publish']>) => {
    const head = memory.publish(...publication);
    host.source.notice();
    return head;
  };
  return { folder, tokenFile, memory, host, router, proxy, node, publish };
}

test('a node fetches what it lacks, applies each role and reports', async (t) => {
  const { memory, host, router, proxy, node, publish } = await world(t);
  publish(FIRST);
  await startNode(t, [router, proxy], node);
  await until('both roles run version 1', () => router.running !== null && proxy.running !== null);
  assert.deepEqual(router.running, routerFiles(FIRST));
  assert.deepEqual(proxy.running, { 'iptables/services/00': '[1]' });
  await until('both results', () => host.results.length >= 2);
  assert.deepEqual(
    host.results
      .map(({ role, outcome, version, sequence }) => ({ role, outcome, version, sequence }))
      .sort((a, b) => (a.role < b.role ? -1 : 1)),
    [
      { role: 'router', outcome: 'applied', version: 1, sequence: 1 },
      { role: 'service-proxy', outcome: 'applied', version: 1, sequence: 1 },
    ],
  );
  assert.deepEqual(host.hellos[0]?.tools, { headgate: '0.1.0', haproxy: '1.2.3', iptables: '1.2.3' });

  memory.reads.length = 0;
  publish(SECOND);
  await until('the router runs version 2', () => router.running?.['router/config/00-base.cfg'] === 'two');
  assert.deepEqual(memory.reads, [digestOf('two')], 'only the changed blob is sent');
  await until('the service proxy says that it is unchanged', () =>
    host.results.some(({ role, how, version }) => role === 'service-proxy' && how === 'unchanged' && version === 2),
  );
  assert.equal(proxy.asked.length, 1, 'unchanged content is not applied again');
});

test('blobs of superseded versions are removed from disk', async (t) => {
  const { router, node, publish } = await world(t);
  publish(FIRST);
  await startNode(t, [router], node);
  for (const text of ['two', 'three', 'four']) {
    publish({ ...FIRST, 'router/config/00-base.cfg': text });
    await until(`${text} runs`, () => router.running?.['router/config/00-base.cfg'] === text);
  }
  publish({ ...FIRST, 'router/config/00-base.cfg': 'five' });
  await until('only blobs in use are left', async () => (await readdir(join(node.state, 'blobs'))).length <= 3);
});

test('a restarted node runs from disk with the host down, and says what it runs when the host is back', async (t) => {
  const { memory, host, router, node, publish, tokenFile } = await world(t);
  publish(FIRST);
  const before = await startNode(t, [router], node);
  await until('version 1 runs', () => router.running !== null);
  await before.close();
  await host.close();

  const again = new RecordingRole('router');
  const sidecar = await startNode(t, [again], node);
  await until('version 1 runs again', () => again.running !== null);
  assert.deepEqual(again.running, routerFiles(FIRST));
  assert.deepEqual(await sidecar.unready(), []);

  const back = await startHost(t, memory.store, tokenFile, host.port);
  await until('the result is sent again', () => back.results.some(({ outcome, version }) => outcome === 'applied' && version === 1));
  assert.equal(again.asked.length, 1);
});

test('a node that has no version is not ready', async (t) => {
  const { router, node, host, publish } = await world(t);
  const sidecar = await startNode(t, [router], { ...node, listen: { host: '127.0.0.1', port: 0 } });
  await until('it is connected', () => host.hellos.length === 1);
  const ask = (path: string) => fetch(`http://127.0.0.1:${sidecar.healthPort}${path}`);
  assert.equal((await ask('/readyz')).status, 503);
  assert.match(await (await ask('/readyz')).text(), /router: no version yet/);
  assert.equal((await ask('/healthz')).status, 200);
  assert.equal((await ask('/nothing')).status, 404);
  publish(FIRST);
  await until('it is ready', async () => (await ask('/readyz')).status === 200);
  const metrics = await (await ask('/metrics')).text();
  assert.match(metrics, /^headgate_sidecar_version\{role="router"\} 1$/m);
  assert.match(metrics, /^headgate_sidecar_sequence 1$/m);
  assert.match(metrics, /^headgate_sidecar_connected 1$/m);
  assert.match(metrics, /^headgate_sidecar_applies_total\{how="reload",outcome="applied",role="router"\} 1$/m);
});

test('a role that refuses does not hold up the other, and refused content is not tried again', async (t) => {
  const { router, proxy, node, host, publish } = await world(t);
  publish(FIRST);
  await startNode(t, [router, proxy], node);
  await until('version 1 runs', () => router.running !== null && proxy.running !== null);
  router.answer = () => REFUSED;
  publish({ ...SECOND, 'iptables/services/00': '[2]' });
  await until('the service proxy moves on', () => proxy.running?.['iptables/services/00'] === '[2]');
  await until('the refusal is reported', () =>
    host.results.some(({ outcome, message }) => outcome === 'refused' && message === REFUSED.message),
  );
  assert.equal(router.asked.length, 2);
  publish({ ...SECOND, 'iptables/services/00': '[3]' });
  await until('the refusal is said of the new head too', () =>
    host.results.some(({ outcome, version }) => outcome === 'refused' && version === 3),
  );
  assert.equal(router.asked.length, 2, 'the same content was not tried again');
  assert.deepEqual(router.running, routerFiles(FIRST));
});

test('refused content is tried again when the head is moved to it by hand', async (t) => {
  const { router, node, publish } = await world(t);
  router.answer = () => REFUSED;
  publish(FIRST);
  await startNode(t, [router], node);
  await until('it was refused', () => router.asked.length === 1);
  router.answer = () => APPLIED;
  publish(FIRST, { author: 'operator', pin: { version: 1, roles: ['router'], freeze: false, author: 'operator', reason: 'because' } });
  await until('it runs', () => router.running !== null);
});

test('after a restart with refused content the node runs what it ran before', async (t) => {
  const { router, node, publish } = await world(t);
  publish(FIRST);
  const before = await startNode(t, [router], node);
  await until('version 1 runs', () => router.running !== null);
  router.answer = () => REFUSED;
  publish(SECOND);
  await until('version 2 was refused', () => router.asked.length === 2);
  await before.close();

  const again = new RecordingRole('router');
  await startNode(t, [again], node);
  await until('version 1 runs', () => again.running !== null);
  assert.deepEqual(again.running, routerFiles(FIRST));
  assert.equal(again.asked.length, 1);
});

test('content that is refused for the first time at a restart falls back too', async (t) => {
  const { router, node, publish } = await world(t);
  publish(FIRST);
  const before = await startNode(t, [router], node);
  await until('version 1 runs', () => router.running !== null);
  let release: () => void = () => undefined;
  router.answer = (_target, signal) =>
    new Promise((resolve) => {
      release = () => resolve(FAILED);
      signal.addEventListener('abort', release);
    });
  publish(SECOND);
  await until('version 2 is being applied', () => router.asked.length === 2);
  await before.close();

  const again = new RecordingRole('router');
  again.answer = ({ version }) => (version === 2 ? REFUSED : APPLIED);
  await startNode(t, [again], node);
  await until('version 1 runs', () => again.running !== null);
  assert.deepEqual(
    again.targets.map(({ version }) => version),
    [2, 1],
  );
});

test('what failed is tried again although the clock was set back', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1_900_000_000_000 });
  const { router, node, publish } = await world(t);
  router.answer = () => {
    t.mock.timers.setTime(1_900_000_000_000 - router.asked.length * 3_600_000);
    return router.asked.length < 3 ? FAILED : APPLIED;
  };
  publish(FIRST);
  await startNode(t, [router], node);
  await until('it runs', () => router.running !== null);
});

test('what failed is tried again until it works', async (t) => {
  const { router, node, host, publish } = await world(t);
  let tries = 0;
  router.answer = () => (++tries < 4 ? FAILED : APPLIED);
  publish(FIRST);
  await startNode(t, [router], node);
  await until('it runs', () => router.running !== null);
  assert.equal(tries, 4);
  await until('both outcomes were reported', () => new Set(host.results.map(({ outcome }) => outcome)).size === 2);
});

test('a role that cannot be opened does not stop the other', async (t) => {
  const { router, proxy, node, host, publish } = await world(t);
  publish(FIRST);
  let missing = true;
  await startNode(t, [], {
    ...node,
    roles: new Map([
      ['router', async () => router],
      [
        'service-proxy',
        async () => {
          if (missing) throw new Error('iptables is not installed');
          return proxy;
        },
      ],
    ]),
  });
  await until('the router runs', () => router.running !== null);
  await until('the failure is reported', () =>
    host.results.some(({ role, outcome, message }) => role === 'service-proxy' && outcome === 'failed' && /not installed/.test(message)),
  );
  missing = false;
  await until('the service proxy runs once it can', () => proxy.running !== null);
});

test('the newest content wins when several come while one is applied', async (t) => {
  const { router, node, host, publish } = await world(t);
  publish(FIRST);
  const gate: (() => void)[] = [];
  router.answer = () => new Promise((resolve) => gate.push(() => resolve(APPLIED)));
  await startNode(t, [router], node);
  await until('version 1 is being applied', () => gate.length === 1);
  for (const text of ['a', 'b', 'c']) publish({ ...FIRST, 'router/config/00-base.cfg': text });
  const sequence = async (): Promise<number> => JSON.parse(await readFile(join(node.state, 'seen.json'), 'utf8')).sequence;
  await until('the newest is on disk', async () => {
    const record = JSON.parse(await readFile(join(node.state, 'roles/router.json'), 'utf8'));
    return (await sequence()) === 4 && record.wanted.head.sequence === 4;
  });
  gate[0]?.();
  await until('the newest is being applied', () => gate.length === 2);
  gate[1]?.();
  await until('the newest runs', () => router.running?.['router/config/00-base.cfg'] === 'c');
  assert.equal(router.asked.length, 2);
  await until('it is reported', () => host.results.at(-1)?.version === 4);
});

test('a node killed in the middle of a fetch asks only for the rest', async (t) => {
  const { memory, router, node, publish } = await world(t);
  const files = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`router/maps/m/${index}`, `entry ${index}`]));
  publish(files);
  const withheld = [25, 26].map((index) => digestOf(`entry ${index}`));
  const kept = withheld.map((digest) => memory.blobs.get(digest));
  for (const digest of withheld) memory.blobs.delete(digest);
  const before = await startNode(t, [router], node);
  await until('a part is on disk', async () => (await readdir(join(node.state, 'blobs'))).length > 10);
  await before.close();
  assert.equal(router.asked.length, 0, 'an incomplete content is not applied');
  const held = (await readdir(join(node.state, 'blobs'))).length;

  withheld.forEach((digest, index) => memory.blobs.set(digest, kept[index] ?? Buffer.alloc(0)));
  const { hellos } = await restartAndCount(t, memory, node, router);
  assert.equal(hellos, 1);
  assert.ok(held > 10);
});

async function restartAndCount(t: TestContext, memory: MemoryStore, node: Parameters<typeof startNode>[2], router: RecordingRole) {
  const host = await startHost(t, memory.store, `${node.tokenFile}-2`);
  const held = new Set(await readdir(join(node.state, 'blobs')));
  memory.reads.length = 0;
  await startNode(t, [router], { ...node, addresses: [host.address] });
  await until('it runs', () => router.running !== null);
  assert.deepEqual(
    memory.reads.filter((digest) => held.has(digest)),
    [],
    'what was on disk is not fetched again',
  );
  return { hellos: host.hellos.length };
}

test('a blob that is damaged on disk is fetched again', async (t) => {
  const { router, node, publish } = await world(t);
  publish(FIRST);
  const before = await startNode(t, [router], node);
  await until('version 1 runs', () => router.running !== null);
  await before.close();
  await writeFile(join(node.state, 'blobs', digestOf('one')), gzipSync('eno'));
  const again = new RecordingRole('router');
  await startNode(t, [again], node);
  await until('version 1 runs', () => again.running !== null);
  assert.deepEqual(again.running, routerFiles(FIRST));
});

test('drift is looked for while nothing else is to be done', async (t) => {
  const { router, node, publish } = await world(t);
  publish(FIRST);
  const sidecar = await startNode(t, [router], node);
  await until('version 1 runs', () => router.running !== null);
  router.drift = ['server a/b was gone'];
  await until('it was repaired', () => /drift_repaired_total\{role="router"\} 1$/m.test(sidecar.metrics()));
});

test('what was lost is applied again, also while newer content is refused', async (t) => {
  const { router, node, publish, host } = await world(t);
  publish(FIRST);
  await startNode(t, [router], node);
  await until('version 1 runs', () => router.asked.length === 1);
  router.answer = ({ version }) => (version === 2 ? REFUSED : APPLIED);
  publish(SECOND);
  await until('version 2 is refused', () => host.results.some(({ outcome }) => outcome === 'refused'));
  router.lost = true;
  await until('version 1 is applied again', () => router.targets.map(({ version }) => version).join() === '1,2,1');
});

test('closing lets go of the roles and of the state folder', async (t) => {
  const { router, node, publish } = await world(t);
  publish(FIRST);
  const sidecar = await startNode(t, [router], node);
  await until('version 1 runs', () => router.running !== null);
  await assert.rejects(startNode(t, [router], node), { code: 'state-in-use' });
  await sidecar.close();
  assert.ok(router.closed);
  await (await startNode(t, [new RecordingRole('router')], node)).close();
});

test('a port that is taken is said, and nothing is held', async (t) => {
  const { router, node, host } = await world(t);
  const listen = { host: '127.0.0.1', port: host.port };
  await assert.rejects(startNode(t, [router], { ...node, listen }), { code: 'port-in-use' });
  await (await startNode(t, [router], node)).close();
});

test('sealed files are opened with their key, and a node without it says what it lacks', async (t) => {
  const { router, node, host, publish } = await world(t);
  const key = parseSealingKey('ab'.repeat(32), 'a test');
  const path = 'router/certificates/a.pem';
  publish({ [path]: sealFile('a private key', key, path) });
  const without = await startNode(t, [router], node);
  await until('it is said', () => host.results.some(({ outcome, message }) => outcome === 'failed' && /--sealing-key/.test(message)));
  assert.deepEqual(router.asked, []);
  await without.close();
  await startNode(t, [router], { ...node, sealingKeys: [key] });
  await until('it runs', () => router.running?.[path] === 'a private key');
});
