import assert from 'node:assert/strict';
import { readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { digestOf } from '../../shared/digest.ts';
import { type KeptContent, LastKnownGood } from '../../sidecar/last-known-good.ts';
import { MemoryStore } from '../fixtures/memory-store.ts';
import { temporaryFolder } from '../fixtures/stream-host.ts';

const file = (content: string) => ({ digest: digestOf(content), size: Buffer.byteLength(content) });

function keptOf(files: Record<string, string>): KeptContent {
  const head = new MemoryStore().publish(files);
  return { head, files: Object.fromEntries(Object.entries(files).map(([path, content]) => [path, file(content)])) };
}

test('what was kept is there when it is opened again', async (t) => {
  const folder = await temporaryFolder(t);
  const memory = await LastKnownGood.open(folder);
  assert.equal(memory.seen, null);
  assert.deepEqual(memory.record('router'), { wanted: null, applied: null, refused: [] });
  const kept = keptOf({ 'router/a': 'one' });
  await memory.keepSeen({ store: 's', sequence: 3 });
  await memory.keepBlob(digestOf('one'), gzipSync('one'));
  await memory.keepRecord('router', { wanted: kept });

  const again = await LastKnownGood.open(folder);
  assert.deepEqual(again.seen, { store: 's', sequence: 3 });
  assert.deepEqual(again.record('router').wanted, kept);
  assert.equal(again.record('service-proxy').wanted, null);
  assert.ok(again.hasBlob(digestOf('one')));
  assert.equal((await again.readBlob(file('one'))).toString('utf8'), 'one');
  for (const name of ['seen.json', 'roles/router.json', `blobs/${digestOf('one')}`]) {
    assert.equal((await stat(join(folder, name))).mode & 0o777, 0o600, name);
  }
});

test('changes of one record from two sides are both kept', async (t) => {
  const folder = await temporaryFolder(t);
  const memory = await LastKnownGood.open(folder);
  const [wanted, applied] = [keptOf({ 'router/a': 'one' }), keptOf({ 'router/a': 'two' })];
  await Promise.all([memory.keepRecord('router', { wanted }), memory.keepRecord('router', { applied })]);
  const record = (await LastKnownGood.open(folder)).record('router');
  assert.deepEqual([record.wanted, record.applied], [wanted, applied]);
});

test('a sweep leaves what is wanted, applied or in use', async (t) => {
  const folder = await temporaryFolder(t);
  const memory = await LastKnownGood.open(folder);
  for (const content of ['one', 'two', 'three', 'four', 'five']) await memory.keepBlob(digestOf(content), gzipSync(content));
  await memory.keepRecord('router', { wanted: keptOf({ 'router/a': 'one' }), applied: keptOf({ 'router/a': 'two' }) });
  await memory.keepRecord('service-proxy', { wanted: keptOf({ 'iptables/a': 'three' }) });
  await memory.sweep([digestOf('four')]);
  assert.deepEqual((await readdir(join(folder, 'blobs'))).sort(), ['one', 'two', 'three', 'four'].map(digestOf).sort());
  assert.ok(!memory.hasBlob(digestOf('five')));
});

test('a damaged blob is no longer held', async (t) => {
  const folder = await temporaryFolder(t);
  const memory = await LastKnownGood.open(folder);
  await memory.keepBlob(digestOf('one'), gzipSync('two'));
  await assert.rejects(memory.readBlob(file('one')), { code: 'blob-lost' });
  assert.ok(!memory.hasBlob(digestOf('one')));
});

test('files that a killed process left half written are removed', async (t) => {
  const folder = await temporaryFolder(t);
  await LastKnownGood.open(folder);
  const halves = [`blobs/.${digestOf('one')}.0123.tmp`, 'roles/.router.json.0123.tmp', '.seen.json.0123.tmp'];
  for (const half of halves) await writeFile(join(folder, half), 'half');
  const memory = await LastKnownGood.open(folder);
  assert.deepEqual((await readdir(folder, { recursive: true })).sort(), ['blobs', 'roles']);
  assert.ok(!memory.hasBlob(digestOf('one')));
});

test('a damaged record is an error that says which file', async (t) => {
  const folder = await temporaryFolder(t);
  await LastKnownGood.open(folder);
  await writeFile(join(folder, 'seen.json'), '{"store":');
  await assert.rejects(LastKnownGood.open(folder), { code: 'bad-state', message: /seen\.json is damaged/ });
});
