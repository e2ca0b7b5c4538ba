import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { defaultOptions } from '../../functions/load-options.ts';
import { listVersions, resume, rollback, showFile, showVersion, status } from '../../functions/operate.ts';
import { reconcile } from '../../functions/reconcile.ts';
import { HeadgateError } from '../../shared/error.ts';
import { openVersionStore, type VersionStore } from '../../shared/version-store.ts';
import { faultyObjects, scratchObjects, scratchStore } from '../shared/version-store/scratch-store.ts';
import { smallCluster } from './memory-cluster.ts';

const by = { reason: 'because', author: 'operator' };

/** A store with versions 1..3, which differ in the path of a route. */
async function fillStore(store: VersionStore): Promise<VersionStore> {
  const cluster = smallCluster();
  for (const path of ['/one', '/two', '/three']) {
    cluster.route('front', { host: 'front.example.com', path });
    await reconcile({ store, cluster, options: defaultOptions(), trigger: 'test', author: 'functions', logger: pino({ level: 'silent' }) });
  }
  return store;
}

const filledStore = async (t: TestContext): Promise<VersionStore> => fillStore(await scratchStore(t));

const fails =
  (code: string, ...words: readonly string[]) =>
  (thrown: unknown): boolean => {
    assert.ok(thrown instanceof HeadgateError);
    assert.equal(thrown.code, code);
    for (const word of words) assert.ok(thrown.message.includes(word), `${thrown.message} says ${word}`);
    return true;
  };

test('versions are listed newest first with what the head says of them', async (t) => {
  const store = await filledStore(t);
  assert.deepEqual(
    (await listVersions(store)).map(({ number, marks }) => [number, marks]),
    [
      [3, ['target']],
      [2, []],
      [1, []],
    ],
  );
  await rollback({ store, version: 1, roles: ['router'], freeze: false, ...by });
  assert.deepEqual(
    (await listVersions(store, 3)).map(({ number, marks, configurationOf }) => [number, marks, configurationOf]),
    [
      [4, ['target'], 1],
      [3, ['newest'], null],
      [2, [], null],
    ],
  );
  assert.deepEqual((await listVersions(store)).at(-1)?.marks, ['pinned']);
});

test('a version and its files are shown; certificates and what is not there are not', async (t) => {
  const store = await filledStore(t);
  const { record, files } = await showVersion(store, 2);
  assert.deepEqual([record.number, record.trigger, record.author, record.sequence], [2, 'test', 'functions', 2]);
  assert.ok(files['router/config/00-base.cfg'] !== undefined);
  assert.match(Buffer.from(await showFile(store, 2, 'router/config/00-base.cfg')).toString(), /^global$/m);
  await assert.rejects(showFile(store, 2, 'router/none'), fails('unknown-file', 'router/none', 'headgate show 2'));
  await assert.rejects(showFile(store, 2, 'constructor'), fails('unknown-file'));
  const certificate = Object.keys(files).find((path) => path.startsWith('router/certificates/')) ?? assert.fail();
  await assert.rejects(showFile(store, 2, certificate), fails('secret-file', certificate));
});

test('a version that does not exist is named with those that do, and the head stays', async (t) => {
  const store = await filledStore(t);
  const back = (version: number) => rollback({ store, version, roles: ['router'], freeze: false, ...by });
  for (const version of [0, 4, 99]) await assert.rejects(back(version), fails('unknown-version', `no version ${version}`, '1 to 3'));
  await assert.rejects(showVersion(store, 4), fails('unknown-version', '1 to 3'));
  await assert.rejects(rollback({ store, version: 1, roles: [], freeze: false, ...by }), fails('no-roles'));
  assert.equal((await store.readHead())?.head.sequence, 3);
});

test('an empty store has nothing to roll back to, resume or list', async (t) => {
  const store = await scratchStore(t);
  await assert.rejects(
    rollback({ store, version: 1, roles: ['router'], freeze: false, ...by }),
    fails('unknown-version', 'nothing was published'),
  );
  await assert.rejects(resume({ store, ...by }), fails('no-versions', 'headgate reconcile'));
  assert.deepEqual(await listVersions(store), []);
  assert.deepEqual(await status(store), { store: store.objects.url, head: null, nodes: [] });
});

test('a rollback can be rolled back, and one to the newest version holds that', async (t) => {
  const store = await filledStore(t);
  const back = (version: number) => rollback({ store, version, roles: ['router'], freeze: false, ...by });
  const first = await back(1);
  const second = await back(2);
  assert.deepEqual([second.pin?.version, second.target.number, second.newest.number], [2, 5, 3]);
  assert.notEqual(second.target.content.router, first.target.content.router);
  const again = await back(first.target.number);
  assert.equal(again.target.content.router, first.target.content.router);
  assert.equal((await back(3)).pin?.version, 3);
});

test('status gives the head and the reason of its last move', async (t) => {
  const store = await filledStore(t);
  await rollback({ store, version: 1, roles: ['router'], freeze: false, ...by });
  const { head } = await status(store);
  assert.deepEqual([head?.reason, head?.author, head?.pin?.version], ['because', 'operator', 1]);
});

for (const when of ['before', 'after'] as const) {
  test(`a rollback that dies ${when} any of its writes is done or not done, and can be done again`, async (t) => {
    for (let at = 1; ; at += 1) {
      const objects = await scratchObjects(t);
      const store = await fillStore(await openVersionStore(objects));
      const dying = faultyObjects(objects, { at, when, dead: true });
      const input = { version: 1, roles: ['router' as const], freeze: false, ...by };
      await rollback({ store: await openVersionStore(dying), ...input }).catch((thrown: unknown) =>
        assert.ok(thrown instanceof HeadgateError),
      );
      const seen = (await store.readHead())?.head ?? assert.fail();
      assert.ok(seen.pin === null ? seen.target.number === 3 : seen.target.number === 4);
      const head = await rollback({ store, ...input });
      assert.deepEqual([head.sequence, head.target.number, head.pin?.version], [seen.sequence + 1, seen.latest.number + 1, 1]);
      if (dying.writes.length < at) return;
    }
  });
}
