import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { RELEASE } from '../../shared/release.ts';

test('the release is the one in package.json', async () => {
  const text = await readFile(new URL('../../package.json', import.meta.url), 'utf8');
  assert.equal(RELEASE, JSON.parse(text).version);
});
