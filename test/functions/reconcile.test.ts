import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { compute } from '../../functions/compute.ts';
import { defaultOptions } from '../../functions/load-options.ts';
import { resume, rollback } from '../../functions/operate.ts';
import { type Reconciled, type ReconcileInput, reconcile } from '../../functions/reconcile.ts';
import { HeadgateError } from '../../shared/error.ts';
import type { VersionRef } from '../../shared/head.ts';
import { isSealed, openSealed, parseSealingKey } from '../../shared/seal.ts';
import { openVersionStore, type VersionStore } from '../../shared/version-store.ts';
import { keysOf } from '../shared/object-store/contract.ts';
import { faultyObjects, scratchObjects, scratchStore } from '../shared/version-store/scratch-store.ts';
import { type MemoryCluster, smallCluster } from './memory-cluster.ts';

const logger = pino({ level: 'silent' });

interface World {
  readonly store: VersionStore;
  readonly cluster: MemoryCluster;
  readonly run: (extra?: Partial<ReconcileInput>) => Promise<Reconciled>;
}

function worldOf(store: VersionStore, cluster = smallCluster()): World {
  const input = { store, cluster, options: defaultOptions(), trigger: 'test', author: 'functions', logger };
  return { store, cluster, run: (extra) => reconcile({ ...input, ...extra }) };
}

async function world(t: TestContext): Promise<World> {
  return worldOf(await scratchStore(t));
}

/** All text below a folder of a version. */
async function textOf(store: VersionStore, ref: VersionRef, folder: string): Promise<string> {
  const { files } = await store.readManifest(ref);
  const wanted = Object.entries(files).filter(([path]) => path.startsWith(folder));
  const texts = await Promise.all(wanted.map(async ([, entry]) => Buffer.from(await store.readFile(entry)).toString('utf8')));
  return texts.join('');
}

const stateOf = ({ head }: Reconciled | { head: Reconciled['head'] }) => ({
  sequence: head.sequence,
  target: head.target.number,
  latest: head.latest.number,
  newest: head.newest.number,
});

const by = { reason: 'because', author: 'operator' };

test('the first reconcile publishes version 1; without a change nothing is written', async (t) => {
  const objects = faultyObjects(await scratchObjects(t), { at: 0, when: 'before' });
  const { cluster, run, store } = worldOf(await openVersionStore(objects));
  const first = await run();
  assert.deepEqual([first.changed, first.version, first.sequence], [true, 1, 1]);
  assert.match(await textOf(store, first.head.target, 'router/state/'), /10\.1\.0\.1/);
  assert.match(await textOf(store, first.head.target, 'iptables/services/'), /172\.30\.0\.10/);
  const writes = objects.writes.length;
  const again = await run({ trigger: 'another' });
  assert.deepEqual([again.changed, again.version, again.sequence], [false, 1, 1]);
  assert.equal(objects.writes.length, writes);

  cluster.endpoints('web', '10.1.0.3');
  const moved = await run();
  assert.deepEqual([moved.changed, moved.version, moved.sequence], [true, 2, 2]);
  assert.deepEqual(moved.head.target.configuration, first.head.target.configuration);
  assert.notEqual(moved.head.target.content.router, first.head.target.content.router);
});

test('a bad route is a rejection beside good ones; it alone makes a version', async (t) => {
  const { cluster, run, store } = await world(t);
  await run();
  cluster.route('broken', { host: 'not a host' });
  const { changed, rejections, head } = await run();
  assert.equal(changed, true);
  assert.deepEqual(
    rejections.map(({ name, reason }) => [name, reason]),
    [['broken', 'InvalidHost']],
  );
  assert.match(await textOf(store, head.target, 'rejections/'), /InvalidHost/);
  assert.match(await textOf(store, head.target, 'router/maps/http/'), /front\.example\.com/);
});

test('an object whose field has the wrong type is reported', async (t) => {
  const { cluster, run } = await world(t);
  cluster.route('odd', { host: 7 });
  cluster.service('odd', { ports: 'none' });
  const { rejections } = await run();
  assert.deepEqual(
    rejections.map(({ kind, name }) => `${kind}/${name}`),
    ['Route/odd', 'Service/odd'],
  );
});

test('a cluster that cannot be read completely publishes nothing', async (t) => {
  const { cluster, run, store } = await world(t);
  await run();
  cluster.remove('Route/front');
  cluster.beforeRead = () => Promise.reject(new HeadgateError('cannot-list', 'read-cluster', 'routes cannot be listed'));
  await assert.rejects(run(), { code: 'cannot-list' });
  assert.equal((await store.readHead())?.head.sequence, 1);
});

test('files that do not fit together are not published', async (t) => {
  const { run, store } = await world(t);
  const broken: typeof compute = (...input) => {
    const computed = compute(...input);
    return { ...computed, files: new Map([...computed.files, ['router/maps/http/ff', 'other.example.com/ be_nowhere\n']]) };
  };
  await assert.rejects(run({ compute: broken }), (thrown) => thrown instanceof HeadgateError && thrown.code === 'inconsistent-version');
  assert.equal(await store.readHead(), null);
});

test('a rollback holds configuration and never endpoints: the whole story', async (t) => {
  const { cluster, run, store } = await world(t);
  await run();
  cluster.route('front', { host: 'front.example.com', path: '/two' });
  await run();
  cluster.route('front', { host: 'front.example.com', path: '/three' });
  cluster.endpoints('web', '10.1.0.3');
  assert.deepEqual(stateOf(await run()), { sequence: 3, target: 3, latest: 3, newest: 3 });

  const rolledBack = await rollback({ store, version: 1, roles: ['router'], freeze: false, ...by });
  assert.deepEqual(stateOf({ head: rolledBack }), { sequence: 4, target: 4, latest: 4, newest: 3 });
  assert.deepEqual(rolledBack.pin, { version: 1, roles: ['router'], freeze: false, ...by });
  assert.equal((await store.readManifest(rolledBack.target)).configurationOf, 1);
  const first = (await store.readVersion(1)) ?? assert.fail();
  assert.equal(await textOf(store, rolledBack.target, 'router/maps/'), await textOf(store, first, 'router/maps/'));
  assert.equal(rolledBack.target.configuration.router, first.configuration.router);
  assert.match(await textOf(store, rolledBack.target, 'router/state/'), /10\.1\.0\.3/);

  // Nothing moved: reconcile agrees with what rollback computed from the store alone.
  assert.equal((await run()).changed, false);

  cluster.endpoints('web', '10.1.0.4');
  const moved = await run();
  assert.deepEqual(stateOf(moved), { sequence: 5, target: 5, latest: 5, newest: 3 });
  assert.match(await textOf(store, moved.head.target, 'router/state/'), /10\.1\.0\.4/);
  assert.doesNotMatch(await textOf(store, moved.head.target, 'router/maps/'), /two|three/);

  cluster.route('front', { host: 'front.example.com', path: '/six' });
  const waits = await run();
  assert.deepEqual(stateOf(waits), { sequence: 6, target: 5, latest: 6, newest: 6 });
  assert.equal((await store.readManifest(waits.head.newest)).configurationOf, null);
  assert.match(await textOf(store, waits.head.newest, 'router/maps/'), /six/);
  assert.equal((await run()).changed, false);

  // Both at once: the endpoints move and the configuration waits, each with a swap of its own.
  cluster.route('front', { host: 'front.example.com', path: '/seven' });
  cluster.endpoints('web', '10.1.0.5');
  const both = await run();
  assert.deepEqual(stateOf(both), { sequence: 8, target: 7, latest: 8, newest: 8 });
  assert.match(await textOf(store, both.head.target, 'router/state/'), /10\.1\.0\.5/);

  cluster.endpoints('web', '10.1.0.6');
  assert.deepEqual(stateOf(await run()), { sequence: 9, target: 9, latest: 9, newest: 8 });
  const resumed = await resume({ store, ...by });
  assert.equal(resumed.resumed, true);
  assert.deepEqual(stateOf(resumed), { sequence: 10, target: 10, latest: 10, newest: 10 });
  assert.equal(resumed.head.pin, null);
  assert.match(await textOf(store, resumed.head.target, 'router/maps/'), /seven/);
  assert.match(await textOf(store, resumed.head.target, 'router/state/'), /10\.1\.0\.6/);
  assert.equal((await run()).changed, false);
});

test('resume without a need for new bytes goes to the version that waited; without a pin it does nothing', async (t) => {
  const { cluster, run, store } = await world(t);
  await run();
  cluster.route('front', { host: 'front.example.com', path: '/two' });
  await run();
  await rollback({ store, version: 1, roles: ['router'], freeze: false, ...by });
  const { head, resumed } = await resume({ store, ...by });
  assert.equal(resumed, true);
  assert.deepEqual(stateOf({ head }), { sequence: 4, target: 2, latest: 3, newest: 2 });
  assert.equal((await run()).changed, false);
  const again = await resume({ store, ...by });
  assert.equal(again.resumed, false);
  assert.equal(again.head.sequence, 4);
});

test('a role that is not pinned follows the cluster; pinned with both, neither does', async (t) => {
  const { cluster, run, store } = await world(t);
  await run();
  cluster.route('front', { host: 'front.example.com', path: '/two' });
  cluster.service('web', { clusterIP: '172.30.0.20', clusterIPs: ['172.30.0.20'] });
  await run();
  const one = await rollback({ store, version: 1, roles: ['router'], freeze: false, ...by });
  assert.match(await textOf(store, one.target, 'iptables/'), /172\.30\.0\.20/);
  assert.doesNotMatch(await textOf(store, one.target, 'router/maps/'), /two/);
  assert.equal((await run()).changed, false);
  cluster.service('web', { clusterIP: '172.30.0.30', clusterIPs: ['172.30.0.30'] });
  const moved = await run();
  assert.match(await textOf(store, moved.head.target, 'iptables/'), /172\.30\.0\.30/);
  assert.doesNotMatch(await textOf(store, moved.head.target, 'router/maps/'), /two/);

  const both = await rollback({ store, version: 1, roles: ['service-proxy', 'router'], freeze: false, ...by });
  assert.deepEqual(both.pin?.roles, ['router', 'service-proxy']);
  assert.match(await textOf(store, both.target, 'iptables/'), /172\.30\.0\.10/);
  assert.equal((await run()).changed, false);
});

test('--freeze runs the exact bytes of both roles; what the cluster says is numbered and waits, endpoints too', async (t) => {
  const { cluster, run, store } = await world(t);
  const first = await run();
  cluster.endpoints('web', '10.1.0.3');
  await run();
  const frozen = await rollback({ store, version: 1, roles: ['router', 'service-proxy'], freeze: true, ...by });
  assert.deepEqual(frozen.target, first.head.target);
  assert.equal((await run()).changed, false);
  cluster.endpoints('web', '10.1.0.4');
  assert.deepEqual(stateOf(await run()), { sequence: 4, target: 1, latest: 3, newest: 3 });
  const { head } = await resume({ store, ...by });
  assert.deepEqual(stateOf({ head }), { sequence: 5, target: 3, latest: 3, newest: 3 });
});

test('--freeze of one role leaves the other moving', async (t) => {
  const { cluster, run, store } = await world(t);
  const first = await run();
  cluster.endpoints('web', '10.1.0.3');
  await run();
  const frozen = await rollback({ store, version: 1, roles: ['router'], freeze: true, ...by });
  assert.equal(frozen.target.content.router, first.head.target.content.router);
  assert.match(await textOf(store, frozen.target, 'iptables/services/'), /10\.1\.0\.3/);
  assert.equal((await run()).changed, false);
  cluster.endpoints('web', '10.1.0.4');
  const moved = await run();
  assert.equal(moved.head.target.content.router, first.head.target.content.router);
  assert.match(await textOf(store, moved.head.target, 'iptables/services/'), /10\.1\.0\.4/);
});

test('a pinned version that is gone stops the publish, not the head; the message says what ends it', async (t) => {
  const { cluster, run, store } = await world(t);
  await run();
  cluster.route('front', { host: 'front.example.com', path: '/two' });
  await run();
  await rollback({ store, version: 1, roles: ['router'], freeze: false, ...by });
  await store.objects.delete('versions/1.json');
  cluster.endpoints('web', '10.1.0.9');
  await assert.rejects(
    run(),
    (thrown) => thrown instanceof HeadgateError && thrown.code === 'pinned-version-gone' && thrown.message.includes('headgate resume'),
  );
  assert.equal((await store.readHead())?.head.sequence, 3);
});

test('a store whose keys are sealed is not written to without the key', async (t) => {
  const { run, store, cluster } = await world(t);
  await run({ sealingKey: parseSealingKey(Buffer.alloc(32, 7).toString('base64'), 'key') });
  cluster.route('front', { host: 'front.example.com' });
  await assert.rejects(run(), (thrown) => thrown instanceof HeadgateError && thrown.code === 'store-is-sealed');
  assert.equal((await store.readHead())?.head.sequence, 1);
});

test('with a sealing key no private key or password reaches the store, and sealing again changes nothing', async (t) => {
  const { run, store } = await world(t);
  const key = parseSealingKey(Buffer.alloc(32, 7).toString('base64'), 'key');
  const defaults = defaultOptions();
  const options = { ...defaults, files: { ...defaults.files, statsPassword: 'a stats password' } };
  const { head } = await run({ options, sealingKey: key });
  const secrets = Object.entries((await store.readManifest(head.target)).files).filter(([path]) =>
    /^router\/(certificates|secrets)\//.test(path),
  );
  assert.ok(secrets.length >= 2);
  for (const [path, entry] of secrets) {
    const stored = await store.readFile(entry);
    assert.ok(isSealed(stored), path);
    assert.match(openSealed(stored, [key], path).toString('utf8'), /PRIVATE KEY|stats password/);
  }
  for (const prefix of ['router/config', 'router/state', 'configuration/', 'endpoints/', 'routes/', 'rejections/']) {
    assert.doesNotMatch(await textOf(store, head.target, prefix), /PRIVATE KEY|a stats password/);
  }
  assert.equal((await run({ options, sealingKey: key })).changed, false);
  await rollback({ store, version: 1, roles: ['router'], freeze: false, ...by });
  assert.equal((await run({ options, sealingKey: key })).changed, false);
});

test('twenty reconciles at once, each after its own change: the head has all of them', async (t) => {
  const objects = await scratchObjects(t);
  const cluster = smallCluster();
  const worlds = await Promise.all(Array.from({ length: 4 }, async () => worldOf(await openVersionStore(objects), cluster)));
  const results = await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      cluster.route(`r${index}`, { host: `r${index}.example.com` });
      for (let turn = 0; turn < index % 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      cluster.endpoints('web', `10.1.1.${index}`);
      return worlds[index % 4]?.run();
    }),
  );
  const store = worlds[0]?.store ?? assert.fail();
  const head = (await store.readHead())?.head ?? assert.fail();
  const maps = await textOf(store, head.target, 'router/maps/http/');
  for (let index = 0; index < 20; index += 1) assert.ok(maps.includes(`r${index}.example.com`), `r${index} is missing`);
  const swaps = results.filter((result) => result?.changed === true).length;
  assert.equal(head.sequence, swaps);
  assert.equal(head.latest.number, swaps);
  assert.equal((await keysOf(objects, 'versions/')).length, swaps);
  assert.equal((await worlds[1]?.run())?.changed, false);
});

test('a head that moves while the cluster is read makes it read again', async (t) => {
  const objects = await scratchObjects(t);
  const cluster = smallCluster();
  const [slow, fast] = [worldOf(await openVersionStore(objects), cluster), worldOf(await openVersionStore(objects), cluster)];
  let first = true;
  cluster.beforeRead = async () => {
    if (!first) return;
    first = false;
    await fast.run();
  };
  const result = await slow.run();
  assert.equal(result.sequence, 1);
  assert.equal(cluster.reads, 3);
});
