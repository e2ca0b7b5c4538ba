import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { replaceFileDurably } from '../../shared/durable-file.ts';
import { temporaryFolder } from '../fixtures/stream-host.ts';

test('a file is replaced whole, with its mode, and nothing else is left', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'file');
  await replaceFileDurably(path, 'one');
  await replaceFileDurably(path, Buffer.from('two'), 0o640);
  assert.equal(await readFile(path, 'utf8'), 'two');
  assert.equal((await stat(path)).mode & 0o777, 0o640);
  assert.deepEqual(await readdir(folder), ['file']);
});

test('writers at once leave one of their files', async (t) => {
  const folder = await temporaryFolder(t);
  const texts = Array.from({ length: 20 }, (_, index) => String(index).repeat(1000));
  await Promise.all(texts.map((text) => replaceFileDurably(join(folder, 'file'), text)));
  assert.ok(texts.includes(await readFile(join(folder, 'file'), 'utf8')));
  assert.deepEqual(await readdir(folder), ['file']);
});

test('what cannot be written leaves nothing behind', async (t) => {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'taken'));
  await assert.rejects(replaceFileDurably(join(folder, 'taken'), 'one'));
  assert.deepEqual(await readdir(folder), ['taken']);
});
