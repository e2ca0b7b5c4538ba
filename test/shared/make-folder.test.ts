import assert from 'node:assert/strict';
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeFolder } from '../../shared/make-folder.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

test('a folder is made with those above it, and one that is there is kept', async (t) => {
  const folder = join(temporaryFolder(t), 'a', 'b', 'c');
  await makeFolder(folder, 0o711);
  await makeFolder(folder);
  assert.equal((await stat(folder)).mode & 0o777, 0o711);
});

test('where nothing can be made it fails instead of trying for ever', async (t) => {
  const file = join(temporaryFolder(t), 'file');
  await writeFile(file, '');
  await assert.rejects(makeFolder(join(file, 'a')), { code: 'ENOTDIR' });
  await assert.rejects(makeFolder('/proc/hg/a'), { code: 'ENOENT' });
});
