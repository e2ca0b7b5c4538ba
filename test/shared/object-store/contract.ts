// What every object store must do, as a suite that each implementation's test runs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HeadgateError } from '../../../shared/error.ts';
import type { Etag, ObjectStore, WriteResult } from '../../../shared/object-store/object-store.ts';

export interface ContractSubject {
  /** An empty store. */
  open(): Promise<ObjectStore>;
  /** The same store through another handle, as another process would open it. */
  reopen(store: ObjectStore): Promise<ObjectStore>;
}

const text = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('utf8');
const bytes = (content: string): Uint8Array => Buffer.from(content);

export async function keysOf(store: ObjectStore, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const key of store.list(prefix)) keys.push(key);
  return keys;
}

function written(result: WriteResult): Etag {
  if (result.outcome === 'conflict') assert.fail('expected the write to be done');
  return result.etag;
}

export function objectStoreContract(name: string, subject: ContractSubject): void {
  test(`${name}: what was put is read, by another handle too`, async () => {
    const store = await subject.open();
    const etag = written(await store.put('a/b.json', bytes('one'), 'absent'));
    const found = await (await subject.reopen(store)).get('a/b.json');
    assert.equal(text(found?.bytes), 'one');
    assert.equal(found?.etag, etag);
  });

  test(`${name}: an empty object and one with every byte come back as they were`, async () => {
    const store = await subject.open();
    const every = Uint8Array.from({ length: 256 }, (_, index) => index);
    await store.put('empty', new Uint8Array(), 'absent');
    await store.put('every', every, 'absent');
    assert.equal((await store.get('empty'))?.bytes.length, 0);
    assert.deepEqual(Uint8Array.from((await store.get('every'))?.bytes ?? []), every);
  });

  test(`${name}: an absent object is null, deleted or never written`, async () => {
    const store = await subject.open();
    assert.equal(await store.get('nothing'), null);
    assert.equal(await store.getIfChanged('nothing', 'etag'), null);
    await store.put('gone', bytes('x'));
    await store.delete('gone');
    await store.delete('gone');
    assert.equal(await store.get('gone'), null);
  });

  test(`${name}: creating conflicts with an object, also one that was swapped, and leaves it alone`, async () => {
    const store = await subject.open();
    const first = written(await store.put('head.json', bytes('one'), 'absent'));
    assert.deepEqual(await store.put('head.json', bytes('other'), 'absent'), { outcome: 'conflict' });
    await store.put('head.json', bytes('two'), { etag: first });
    assert.deepEqual(await store.put('head.json', bytes('other'), 'absent'), { outcome: 'conflict' });
    assert.equal(text((await store.get('head.json'))?.bytes), 'two');
  });

  test(`${name}: a swap needs the present tag: stale, foreign and absent ones conflict`, async () => {
    const store = await subject.open();
    const first = written(await store.put('head.json', bytes('one'), 'absent'));
    const second = written(await store.put('head.json', bytes('two'), { etag: first }));
    assert.notEqual(second, first);
    assert.deepEqual(await store.put('head.json', bytes('three'), { etag: first }), { outcome: 'conflict' });
    assert.deepEqual(await store.put('absent.json', bytes('three'), { etag: second }), { outcome: 'conflict' });
    assert.equal(text((await store.get('head.json'))?.bytes), 'two');
    assert.equal(await store.get('absent.json'), null);
    written(await store.put('head.json', bytes('three'), { etag: second }));
  });

  test(`${name}: a tag from before a deletion does not swap what was created after it`, async () => {
    const store = await subject.open();
    const before = written(await store.put('k', bytes('one'), 'absent'));
    await store.delete('k');
    written(await store.put('k', bytes('two'), 'absent'));
    assert.deepEqual(await store.put('k', bytes('three'), { etag: before }), { outcome: 'conflict' });
  });

  test(`${name}: an unconditional write creates and replaces`, async () => {
    const store = await subject.open();
    const first = written(await store.put('fleet/a.json', bytes('one')));
    const second = written(await store.put('fleet/a.json', bytes('two')));
    assert.notEqual(first, second);
    assert.equal(text((await store.get('fleet/a.json'))?.bytes), 'two');
  });

  test(`${name}: getIfChanged says unchanged for the present tag and gives the object for any other`, async () => {
    const store = await subject.open();
    const first = written(await store.put('head.json', bytes('one'), 'absent'));
    assert.equal(await store.getIfChanged('head.json', first), 'unchanged');
    const second = written(await store.put('head.json', bytes('two'), { etag: first }));
    const found = await store.getIfChanged('head.json', first);
    assert.ok(found !== null && found !== 'unchanged');
    assert.equal(text(found.bytes), 'two');
    assert.equal(found.etag, second);
  });

  test(`${name}: list gives each key once, in ascending order, below a prefix that may end anywhere`, async () => {
    const store = await subject.open();
    const keys = ['a/b', 'a-b/c', 'a.json', 'a/b-c/d', 'a/bc', 'a:b', 'b', 'versions/1.json', 'versions/10.json', 'versions/2.json'];
    for (const key of keys) await store.put(key, bytes(key));
    await store.put('b', bytes('again'));
    assert.deepEqual(await keysOf(store, ''), keys.toSorted());
    assert.deepEqual(await keysOf(store, 'versions/'), ['versions/1.json', 'versions/10.json', 'versions/2.json']);
    assert.deepEqual(await keysOf(store, 'versions/1'), ['versions/1.json', 'versions/10.json']);
    assert.deepEqual(await keysOf(store, 'a/b'), ['a/b', 'a/b-c/d', 'a/bc']);
    assert.deepEqual(await keysOf(store, 'none/'), []);
    await store.delete('a/b');
    assert.deepEqual(await keysOf(store, 'a/'), ['a/b-c/d', 'a/bc']);
  });

  test(`${name}: of many creators and of many swappers at once, one wins`, async () => {
    const store = await subject.open();
    const race = async (attempt: (index: number) => Promise<WriteResult>): Promise<Etag> => {
      const results = await Promise.all(Array.from({ length: 20 }, (_, index) => attempt(index)));
      const winners = results.filter(({ outcome }) => outcome === 'written');
      assert.equal(winners.length, 1);
      const [winner] = winners;
      assert.ok(winner !== undefined);
      return written(winner);
    };
    let etag = await race((index) => store.put('race', bytes(`create ${index}`), 'absent'));
    for (let round = 0; round < 5; round += 1) {
      const seen = etag;
      etag = await race((index) => store.put('race', bytes(`swap ${round} ${index}`), { etag: seen }));
      assert.equal((await store.get('race'))?.etag, etag);
    }
  });

  test(`${name}: many first writes below one new prefix at once all succeed`, async () => {
    const store = await subject.open();
    const keys = Array.from({ length: 40 }, (_, index) => `new/prefix/${index}`);
    const results = await Promise.all(keys.map((key) => store.put(key, bytes(key), 'absent')));
    assert.deepEqual([...new Set(results.map(({ outcome }) => outcome))], ['written']);
    assert.deepEqual(await keysOf(store, 'new/'), keys.toSorted());
  });

  test(`${name}: keys that could leave the store are refused`, async () => {
    const store = await subject.open();
    for (const key of ['', '/etc/passwd', '../x', 'a/../../x', 'a//b', '.hidden', 'a/', 'a\0b', 'a@', 'ü', 'x'.repeat(600)]) {
      await assert.rejects(
        store.put(key, bytes('x')),
        (thrown) => thrown instanceof HeadgateError && thrown.code === 'bad-key' && thrown.stage === 'store',
        JSON.stringify(key),
      );
      await assert.rejects(store.get(key), HeadgateError);
    }
    await assert.rejects(keysOf(store, '../'), HeadgateError);
  });

  test(`${name}: an aborted signal stops a call before it writes`, async () => {
    const store = await subject.open();
    await assert.rejects(store.put('k', bytes('x'), 'absent', AbortSignal.abort()), { name: 'AbortError' });
    assert.equal(await store.get('k'), null);
  });
}
