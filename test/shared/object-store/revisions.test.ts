import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import {
  cleanRevisions,
  createObject,
  currentRevision,
  hasRevisions,
  linkRevision,
  type Revision,
  writeDraft,
} from '../../../shared/object-store/revisions.ts';

let root = '';
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), `hg-revisions-${process.pid}-`));
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function draftOf(content: string): Promise<string> {
  const draft = await mkdtemp(join(root, 'draft-'));
  await writeDraft(draft, Buffer.from(content));
  return draft;
}

async function present(folder: string): Promise<Revision> {
  const revision = await currentRevision(folder);
  assert.ok(revision !== null);
  return revision;
}

/** An object with revisions 1..count whose bytes are their numbers. */
async function objectWith(count: number): Promise<string> {
  const folder = join(root, 'object@');
  assert.equal(await createObject(folder, await draftOf('1')), true);
  for (let number = 2; number <= count; number += 1) {
    assert.equal(await linkRevision(folder, await draftOf(String(number)), await present(folder)), true);
  }
  return folder;
}

test('a writer that was paused until the revision it would write had been written and cleaned finds out', async () => {
  const folder = await objectWith(3);
  const seen = await present(folder);
  for (let number = 4; number <= 9; number += 1) await linkRevision(folder, await draftOf(String(number)), await present(folder));
  await cleanRevisions(folder, { count: 2, ageMs: 0 }, Date.now() + 1);
  assert.deepEqual(await readdir(folder), ['000000000008', '000000000009']);
  assert.equal(await linkRevision(folder, await draftOf('stale'), seen), false);
  assert.deepEqual((await readdir(folder)).sort(), ['000000000008', '000000000009']);
  assert.equal(Buffer.from((await present(folder)).bytes).toString(), '9');
});

test('a creator that was paused until the first revision had been cleaned is refused', async () => {
  const folder = await objectWith(6);
  await cleanRevisions(folder, { count: 1, ageMs: 0 }, Date.now() + 1);
  assert.deepEqual(await readdir(folder), ['000000000006']);
  assert.equal(await createObject(folder, await draftOf('late')), false);
  assert.equal((await present(folder)).number, 6);
});

test('cleaning keeps the last ones, the young ones, and never a gap before them', async () => {
  const folder = await objectWith(8);
  const now = Date.now();
  const ago = (seconds: number): number => now / 1000 - seconds;
  for (const number of [1, 2, 4, 5]) await utimes(join(folder, `00000000000${number}`), ago(700), ago(700));
  await cleanRevisions(folder, { count: 2, ageMs: 600_000 }, now);
  assert.deepEqual(
    await readdir(folder),
    ['3', '4', '5', '6', '7', '8'].map((digit) => digit.padStart(12, '0')),
  );
});

test('the highest revision stays, whatever the retention', async () => {
  const folder = await objectWith(2);
  await cleanRevisions(folder, { count: 0, ageMs: 0 }, Date.now() + 1);
  assert.equal((await present(folder)).number, 2);
});

test('numbers are compared as numbers, not as text', async () => {
  const folder = await objectWith(11);
  assert.equal((await present(folder)).number, 11);
});

test('the object is absent before it is created', async () => {
  assert.equal(await currentRevision(join(root, 'none@')), null);
  await mkdir(join(root, 'empty@'));
  assert.equal(await currentRevision(join(root, 'empty@')), null);
});

test('names that are no revisions do not count, and a folder that was emptied by hand can be created again', async () => {
  const folder = await objectWith(2);
  for (const name of ['000000000002~', '.000000000003.swp', '.nfs00000001']) await writeFile(join(folder, name), 'stray');
  assert.equal(Buffer.from((await present(folder)).bytes).toString(), '2');
  assert.equal(await linkRevision(folder, await draftOf('3'), await present(folder)), true);
  assert.equal((await present(folder)).number, 3);

  for (const name of await readdir(folder)) await rm(join(folder, name));
  assert.equal(await currentRevision(folder), null);
  assert.equal(await hasRevisions(folder), false);
  assert.equal(await createObject(folder, await draftOf('again')), true);
  assert.equal(Buffer.from((await present(folder)).bytes).toString(), 'again');
});
