import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { HeadgateError } from '../../../shared/error.ts';
import { openObjectStore } from '../../../shared/object-store/open-store.ts';

test('a file: URL opens a folder, with or without a slash at its end, spaces and all', async () => {
  const root = await mkdtemp(join(tmpdir(), `hg-open-${process.pid}-`));
  try {
    const url = pathToFileURL(join(root, 'a store')).href;
    const store = await openObjectStore(`${url}/`);
    assert.equal(store.url, url);
    await store.put('k', Buffer.from('x'));
    assert.notEqual(await (await openObjectStore(url)).get('k'), null);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});

test('anything else is refused with what to write', async () => {
  for (const url of ['/var/lib/headgate', './store', 'store', '', 's3://bucket/prefix', 'http://x', 'file://host/path']) {
    await assert.rejects(
      openObjectStore(url),
      (thrown) =>
        thrown instanceof HeadgateError &&
        thrown.code === 'unsupported-store' &&
        thrown.stage === 'usage' &&
        thrown.message.includes('file:///path'),
      url,
    );
  }
});
