import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { HeadSource } from '../../functions/head-source.ts';
import { MemoryStore, type StreamStore } from '../fixtures/memory-store.ts';
import { until } from '../fixtures/poll.ts';
import { SILENT } from '../fixtures/stream-host.ts';

function world(t: TestContext, pollMs = 10) {
  const memory = new MemoryStore();
  const source = new HeadSource({ store: memory.store, logger: SILENT, pollMs });
  t.after(() => source.close());
  return { memory, source };
}

test('it finds the first head and each next one, and tells its subscribers', async (t) => {
  const { memory, source } = world(t);
  const seen: (number | undefined)[] = [];
  const stop = source.subscribe(() => seen.push(source.current?.revision.head.sequence));
  source.start();
  memory.publish({ 'router/a': 'one', 'routes/00': 'people' });
  await until('the first', () => source.current?.revision.head.sequence === 1);
  assert.deepEqual(Object.keys(source.current?.lists.router ?? {}), ['router/a']);
  memory.publish({ 'router/a': 'two' });
  await until('the second', () => source.current?.revision.head.sequence === 2);
  stop();
  memory.publish({ 'router/a': 'three' });
  await until('the third', () => source.current?.revision.head.sequence === 3);
  assert.deepEqual(seen, [1, 2]);
});

test('a notice is followed at once, and one that comes during a look is not lost', async (t) => {
  const { memory, source } = world(t, 1e9);
  source.start();
  memory.publish({ 'router/a': 'one' });
  source.notice();
  await until('the first', () => source.current?.revision.head.sequence === 1);
  for (let sequence = 2; sequence < 50; sequence += 1) {
    memory.publish({ 'router/a': `${sequence}` });
    source.notice();
    await until(`sequence ${sequence}`, () => source.current?.revision.head.sequence === sequence);
  }
});

test('the last lists are kept as bases, older ones are forgotten', async (t) => {
  const { memory, source } = world(t);
  source.start();
  const heads = [];
  for (let index = 1; index <= 20; index += 1) {
    heads.push(memory.publish({ 'router/a': `${index}` }));
    source.notice();
    await until(`${index}`, () => source.current?.revision.head.sequence === index);
  }
  const held = heads.filter(({ target }) => source.listOf('router', target.content.router) !== null);
  assert.deepEqual(
    held.map(({ sequence }) => sequence),
    [13, 14, 15, 16, 17, 18, 19, 20],
  );
  assert.equal(source.listOf('router', 'ab'.repeat(32)), null);
});

test('while the store does not answer the last head stays, and the reason is told', async (t) => {
  let away = false;
  const memory = new MemoryStore();
  const { store } = memory;
  const readHeadIfChanged: StreamStore['readHeadIfChanged'] = async (etag) => {
    if (away) throw new Error('store away');
    return store.readHeadIfChanged(etag);
  };
  const source = new HeadSource({ store: { ...store, readHeadIfChanged }, logger: SILENT, pollMs: 5 });
  t.after(() => source.close());
  memory.publish({ 'router/a': 'one' });
  source.start();
  await until('the first', () => source.current !== null);
  away = true;
  await until('the reason', () => source.problem === 'store away');
  assert.equal(source.current?.revision.head.sequence, 1);
  memory.publish({ 'router/a': 'two' });
  away = false;
  await until('the second', () => source.current?.revision.head.sequence === 2);
  assert.equal(source.problem, null);
});
