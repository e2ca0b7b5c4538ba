import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { digestOf } from '../../shared/digest.ts';
import { HeadgateError } from '../../shared/error.ts';
import { type Head, headText, parseHead } from '../../shared/head.ts';
import { configurationOf, contentOf } from '../../shared/manifest.ts';
import type { ObjectStore } from '../../shared/object-store/object-store.ts';
import { type FileSource, type HeadMove, type HeadRevision, openVersionStore, type VersionStore } from '../../shared/version-store.ts';
import { keysOf } from './object-store/contract.ts';
import { faultyObjects, scratchObjects, scratchStore } from './version-store/scratch-store.ts';

const SUMMARY = { routes: 1, services: 2, servers: 3, rejections: 4 };

function publishing(files: Readonly<Record<string, FileSource>>): HeadMove {
  const version = { files: new Map(Object.entries(files)), trigger: 'test', author: 'tester', configurationOf: null, summary: SUMMARY };
  return { version, target: 'version', newest: 'version', pin: null, author: 'tester', reason: 'because' };
}

async function publish(store: VersionStore, files: Readonly<Record<string, FileSource>>): Promise<HeadRevision> {
  const { moved, head } = await store.move(() => Promise.resolve(publishing(files)));
  assert.ok(moved && head !== null);
  return head;
}

const read = async (store: VersionStore, ref: Head['target'], path: string): Promise<string> => {
  const entry = (await store.readManifest(ref)).files[path];
  assert.ok(entry !== undefined);
  return Buffer.from(await store.readFile(entry)).toString('utf8');
};

async function recordsOf(store: VersionStore) {
  const records = [];
  for await (const record of store.versions()) records.push(record);
  return records;
}

/** Every number and sequence up to the head's has its record, and the records agree with the heads. */
async function assertWholeTrail(objects: ObjectStore, head: Head): Promise<void> {
  const numbers = Array.from({ length: head.latest.number }, (_, index) => `versions/${index + 1}.json`);
  const sequences = Array.from({ length: head.sequence }, (_, index) => `heads/${index + 1}.json`);
  assert.deepEqual(await keysOf(objects, 'versions/'), numbers.toSorted());
  assert.deepEqual(await keysOf(objects, 'heads/'), sequences.toSorted());
  let latest = 0;
  for (const [index, key] of sequences.entries()) {
    const past = parseHead(Buffer.from((await objects.get(key))?.bytes ?? []).toString('utf8'));
    assert.equal(past.sequence, index + 1);
    assert.ok(past.latest.number === latest || past.latest.number === latest + 1, `head ${index + 1} leaves out a number`);
    if (past.latest.number > latest) {
      const record = JSON.parse(Buffer.from((await objects.get(`versions/${past.latest.number}.json`))?.bytes ?? []).toString('utf8'));
      assert.equal(record.sequence, past.sequence);
      assert.equal(record.manifest, past.latest.manifest);
    }
    latest = past.latest.number;
  }
}

test('the store gets its id once, after the probe, whoever opens it', async (t) => {
  const objects = await scratchObjects(t);
  const stores = await Promise.all(Array.from({ length: 5 }, () => openVersionStore(objects)));
  assert.equal(new Set(stores.map(({ id }) => id)).size, 1);
  assert.equal((await openVersionStore(objects)).id, stores[0]?.id);
  assert.deepEqual(await keysOf(objects, ''), ['store.json']);
});

test('a store whose conditions do not hold is refused, and gets no id', async (t) => {
  const objects = await scratchObjects(t);
  const ignoresAbsent: ObjectStore = {
    ...bound(objects),
    put: (key, bytes, condition) => objects.put(key, bytes, condition === 'absent' ? undefined : condition),
  };
  const ignoresMatch: ObjectStore = {
    ...bound(objects),
    put: (key, bytes, condition) => objects.put(key, bytes, condition === 'absent' ? 'absent' : undefined),
  };
  const refusesMatch: ObjectStore = {
    ...bound(objects),
    put: async (key, bytes, condition) => (typeof condition === 'object' ? { outcome: 'conflict' } : objects.put(key, bytes, condition)),
  };
  for (const [store, words] of [
    [ignoresAbsent, /created twice/],
    [ignoresMatch, /stale tag/],
    [refusesMatch, /right tag/],
  ] as const) {
    await assert.rejects(
      openVersionStore(store),
      (thrown) =>
        thrown instanceof HeadgateError && thrown.code === 'unfit-store' && thrown.stage === 'store' && words.test(thrown.message),
    );
  }
  assert.deepEqual(await keysOf(objects, ''), []);
});

function bound(objects: ObjectStore): ObjectStore {
  return {
    url: objects.url,
    get: (key, signal) => objects.get(key, signal),
    getIfChanged: (key, etag, signal) => objects.getIfChanged(key, etag, signal),
    put: (key, bytes, condition, signal) => objects.put(key, bytes, condition, signal),
    delete: (key, signal) => objects.delete(key, signal),
    list: (prefix, signal) => objects.list(prefix, signal),
  };
}

test('the first move publishes version 1 at sequence 1, all of it readable by another process', async (t) => {
  const objects = await scratchObjects(t);
  const store = await openVersionStore(objects, { now: () => new Date('2030-01-02T03:04:05Z') });
  assert.equal(await store.readHead(), null);
  const { head, text, etag } = await publish(store, {
    'router/a': 'alpha',
    'iptables/b': Buffer.from([0, 1, 255]),
    'configuration/router/c': 'gamma',
  });
  assert.equal(text, headText(head));
  assert.deepEqual(
    { sequence: head.sequence, number: head.target.number, store: head.store, author: head.author, reason: head.reason, time: head.time },
    { sequence: 1, number: 1, store: store.id, author: 'tester', reason: 'because', time: '2030-01-02T03:04:05.000Z' },
  );
  assert.deepEqual(head.latest, head.target);
  assert.deepEqual(head.newest, head.target);

  const other = await openVersionStore(objects);
  assert.deepEqual(await other.readHead(), { head, text, etag });
  assert.equal(await other.readHeadIfChanged(etag), 'unchanged');
  assert.equal(await read(other, head.target, 'router/a'), 'alpha');
  const manifest = await other.readManifest(head.target);
  assert.deepEqual(head.target.content, contentOf(manifest.files));
  assert.deepEqual(head.target.configuration, configurationOf(manifest.files));
  assert.deepEqual(manifest.summary, SUMMARY);
  const entry = manifest.files['iptables/b'];
  assert.ok(entry !== undefined);
  assert.deepEqual([...gunzipSync((await other.readBlob(entry)) ?? Buffer.of())], [0, 1, 255]);
});

test('what the latest manifest names is not uploaded again; a file of another version is carried over', async (t) => {
  const objects = faultyObjects(await scratchObjects(t), { at: 0, when: 'before' });
  const store = await openVersionStore(objects);
  const first = await publish(store, { 'router/a': 'alpha', 'router/b': 'beta' });
  const carried = (await store.readManifest(first.head.target)).files['router/a'];
  assert.ok(carried !== undefined);
  const before = objects.writes.length;
  const second = await publish(store, { 'router/same': 'alpha', 'router/b': 'changed', 'router/carried': carried });
  const uploaded = objects.writes.slice(before).filter((key) => key.startsWith('blobs/'));
  assert.deepEqual(uploaded, [`blobs/0/${digestOf('changed')}`, `blobs/0/${second.head.target.manifest}`]);
  assert.equal(await read(store, second.head.target, 'router/carried'), 'alpha');
  assert.equal(await read(store, second.head.target, 'router/same'), 'alpha');
});

test('nothing to do moves nothing; a move without a version takes a sequence and no number', async (t) => {
  const store = await scratchStore(t);
  const first = await publish(store, { 'router/a': '1' });
  await publish(store, { 'router/a': '2' });
  const idle = await store.move(() => Promise.resolve(null));
  assert.deepEqual([idle.moved, idle.head?.head.sequence], [false, 2]);
  const { head } = await store.move((seen) => {
    assert.ok(seen !== null);
    const pin = { version: 1, roles: ['router' as const], freeze: true, author: 'operator', reason: 'because' };
    return Promise.resolve({ version: null, target: first.head.target, newest: seen.head.newest, pin, author: 'a', reason: 'r' });
  });
  assert.deepEqual([head?.head.sequence, head?.head.target.number, head?.head.latest.number, head?.head.newest.number], [3, 1, 2, 2]);
  const next = await publish(store, { 'router/a': '3' });
  assert.deepEqual([next.head.sequence, next.head.latest.number], [4, 3]);
  await assertWholeTrail(store.objects, next.head);
});

test('movers at once: every sequence and number is given once, none is left out', async (t) => {
  const objects = await scratchObjects(t);
  const stores = await Promise.all(Array.from({ length: 4 }, () => openVersionStore(objects)));
  const moves = await Promise.all(
    Array.from({ length: 20 }, (_, index) => publish(stores[index % 4] ?? assert.fail(), { 'router/a': `content ${index}` })),
  );
  assert.deepEqual(
    moves.map(({ head }) => head.sequence).sort((a, b) => a - b),
    Array.from({ length: 20 }, (_, index) => index + 1),
  );
  const last = await stores[0]?.readHead();
  assert.ok(last !== null && last !== undefined);
  assert.equal(last.head.latest.number, 20);
  await assertWholeTrail(objects, last.head);
});

test('a mover that always comes second gives up and says so', async (t) => {
  const objects = await scratchObjects(t);
  const [slow, fast] = [await openVersionStore(objects, { attempts: 3 }), await openVersionStore(objects)];
  const asked: (number | undefined)[] = [];
  const lost = slow.move(async (seen) => {
    asked.push(seen?.head.sequence);
    await publish(fast, { 'router/a': `fast ${asked.length}` });
    return publishing({ 'router/a': 'slow' });
  });
  await assert.rejects(lost, (thrown) => thrown instanceof HeadgateError && thrown.code === 'head-contended' && thrown.stage === 'publish');
  assert.deepEqual(asked, [undefined, 1, 2]);
});

for (const when of ['before', 'after'] as const) {
  test(`a mover that dies ${when} any of its writes: the next one heals, and nothing is skipped`, async (t) => {
    for (let at = 1; ; at += 1) {
      const objects = await scratchObjects(t);
      const healthy = await openVersionStore(objects);
      await publish(healthy, { 'router/a': '1' });
      const dying = faultyObjects(objects, { at, when, dead: true });
      const moved = await publish(await openVersionStore(dying), { 'router/a': '2', 'router/b': '2' }).then(
        () => true,
        (thrown: unknown) => {
          assert.ok(thrown instanceof HeadgateError);
          return false;
        },
      );
      const seen = await healthy.readHead();
      assert.ok(seen !== null && (seen.head.sequence === 1 || seen.head.sequence === 2));
      assert.equal(seen.head.latest.number, seen.head.sequence);
      assert.equal(await read(healthy, seen.head.target, 'router/a'), String(seen.head.sequence));
      assert.equal((await healthy.readVersion(seen.head.latest.number))?.manifest, seen.head.latest.manifest);
      assert.equal((await recordsOf(healthy)).length, seen.head.latest.number);

      const healed = await publish(await openVersionStore(objects), { 'router/a': '3', 'router/b': '2' });
      assert.equal(healed.head.sequence, seen.head.sequence + 1);
      assert.equal(healed.head.latest.number, seen.head.latest.number + 1);
      assert.equal(await read(healthy, healed.head.target, 'router/b'), '2');
      await assertWholeTrail(objects, healed.head);
      if (moved && dying.writes.length < at) return;
    }
  });
}

for (const answer of ['error', 'conflict'] as const) {
  test(`a swap that was done but answered with ${answer} is recognised by its writer`, async (t) => {
    const objects = await scratchObjects(t);
    await publish(await openVersionStore(objects), { 'router/a': '1' });
    const counted = faultyObjects(objects, { at: 0, when: 'before' });
    await publish(await openVersionStore(counted), { 'router/a': '2' });
    const at = counted.writes.indexOf('head.json') + 1;
    const flaky = faultyObjects(objects, { at, when: 'after', answer });
    let asked = 0;
    const { moved, head } = await (await openVersionStore(flaky)).move(() => {
      asked += 1;
      return Promise.resolve(publishing({ 'router/a': '3' }));
    });
    assert.equal(flaky.writes[at - 1], 'head.json');
    assert.deepEqual([moved, asked, head?.head.sequence], [true, 1, 3]);
    await assertWholeTrail(objects, head?.head ?? assert.fail());
  });
}

test('a swap whose answer was lost is recognised in the history when others have moved on', async (t) => {
  const objects = await scratchObjects(t);
  const other = await openVersionStore(objects);
  await publish(other, { 'router/a': '1' });
  const overtaken: ObjectStore = {
    ...bound(objects),
    put: async (key, bytes, condition) => {
      const result = await objects.put(key, bytes, condition);
      if (key !== 'head.json') return result;
      await publish(other, { 'router/a': '3' });
      return { outcome: 'conflict' };
    },
  };
  const { head } = await publish(await openVersionStore(overtaken), { 'router/a': '2' });
  assert.equal(head.sequence, 2);
  assert.equal((await other.readHead())?.head.sequence, 3);
});

test('versions are listed newest first by number, not by name', async (t) => {
  const store = await scratchStore(t);
  for (let number = 1; number <= 12; number += 1) await publish(store, { 'router/a': String(number) });
  const records = await recordsOf(store);
  assert.deepEqual(
    records.map(({ number }) => number),
    [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1],
  );
  assert.equal(await store.readVersion(13), null);
});

test('a damaged or missing blob, and a head of another store, are refused', async (t) => {
  const objects = await scratchObjects(t);
  const store = await openVersionStore(objects);
  const { head } = await publish(store, { 'router/a': 'alpha', 'router/b': 'beta' });
  const { files } = await store.readManifest(head.target);
  const [a, b] = [files['router/a'] ?? assert.fail(), files['router/b'] ?? assert.fail()];
  const key = `blobs/0/${a.digest}`;
  const other = await store.readBlob(b);
  await objects.put(key, other ?? Buffer.of());
  const fails = (code: string) => (thrown: unknown) =>
    thrown instanceof HeadgateError && thrown.code === code && thrown.message.includes('blobs/0/');
  await assert.rejects(store.readFile(a), fails('blob-damaged'));
  await objects.put(key, Buffer.from('not gzip'));
  await assert.rejects(store.readFile(a), fails('blob-damaged'));
  await objects.delete(key);
  await assert.rejects(store.readFile(a), fails('blob-gone'));
  assert.equal(await store.readBlob(a), null);

  await objects.put('head.json', Buffer.from(headText({ ...head, store: 'another' })));
  await assert.rejects(store.readHead(), (thrown) => thrown instanceof HeadgateError && thrown.code === 'foreign-head');
});
