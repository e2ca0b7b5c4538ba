import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BlobFrames } from '../../functions/blob-frames.ts';
import { digestOf } from '../../shared/digest.ts';

function world(capacity: number) {
  const reads: string[] = [];
  const blobs = new Map(['a', 'b', 'c'].map((name) => [digestOf(name), Buffer.alloc(100, name)]));
  const readBlob = async ({ digest }: { digest: string }) => {
    reads.push(digest);
    return blobs.get(digest) ?? null;
  };
  return { reads, blobs, frames: new BlobFrames({ readBlob }, capacity) };
}

test('a frame is the digest and the stored bytes, read once for many that ask at once', async () => {
  const { frames, reads } = world(1_000);
  const asked = await Promise.all(Array.from({ length: 5 }, () => frames.frame(digestOf('a'), 0)));
  assert.deepEqual(asked[0], Buffer.concat([Buffer.from(digestOf('a'), 'hex'), Buffer.alloc(100, 'a')]));
  assert.ok(asked.every((frame) => frame === asked[0]));
  await frames.frame(digestOf('a'), 0);
  assert.deepEqual(reads, [digestOf('a')]);
});

test('the frames used least recently are forgotten when there are too many bytes', async () => {
  const { frames, reads } = world(300);
  for (const name of ['a', 'b', 'a', 'c', 'a', 'b']) await frames.frame(digestOf(name), 0);
  assert.deepEqual(reads, ['a', 'b', 'c', 'b'].map(digestOf));
});

test('a blob that is gone is asked for again, since it may come back', async () => {
  const { frames, blobs } = world(300);
  assert.equal(await frames.frame(digestOf('d'), 0), null);
  blobs.set(digestOf('d'), Buffer.from('d'));
  assert.notEqual(await frames.frame(digestOf('d'), 0), null);
});

test('a read that failed is not remembered', async () => {
  let fails = true;
  const frames = new BlobFrames({
    readBlob: async () => {
      if (fails) throw new Error('store away');
      return Buffer.from('x');
    },
  });
  await assert.rejects(frames.frame(digestOf('a'), 0), /store away/);
  fails = false;
  assert.notEqual(await frames.frame(digestOf('a'), 0), null);
});
