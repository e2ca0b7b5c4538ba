// Blobs: bytes named by the sha256 of their uncompressed form, stored as gzip under the generation they were written in,
// `blobs/<generation>/<digest>`. Written once, never changed.

import { promisify } from 'node:util';
import { gunzip as gunzipCallback, gzip as gzipCallback } from 'node:zlib';
import { type Digest, digestOf } from '../digest.ts';
import { HeadgateError } from '../error.ts';
import type { FileEntry } from '../manifest.ts';
import type { ObjectStore } from '../object-store/object-store.ts';

const gzip = promisify(gzipCallback);
const gunzip = promisify(gunzipCallback);

/** Fixed, so that the same bytes are stored the same; Node writes no time into the header. */
const GZIP_LEVEL = 6;

/** Where a blob is. */
export type BlobName = Pick<FileEntry, 'digest' | 'generation'>;

export function blobKey({ digest, generation }: BlobName): string {
  return `blobs/${generation}/${digest}`;
}

/** Writes a blob unless it is there. */
export async function writeBlob(objects: ObjectStore, name: BlobName, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
  await objects.put(blobKey(name), await gzip(bytes, { level: GZIP_LEVEL }), 'absent', signal);
}

/**
 * A blob's bytes, uncompressed.
 * @param size of the uncompressed bytes: no more is inflated; null when it is not known (a manifest)
 * @throws HeadgateError stage `store`: `blob-gone`, or `blob-damaged` when the bytes are not those of the name
 */
export async function readBlobBytes(objects: ObjectStore, name: BlobName, size: number | null, signal?: AbortSignal): Promise<Uint8Array> {
  const key = blobKey(name);
  const stored = await objects.get(key, signal);
  if (stored === null) throw new HeadgateError('blob-gone', 'store', `${objects.url}: ${key} is gone; was the store cleaned by hand?`);
  const bytes = await inflate(stored.bytes, size ?? MOST_BYTES).catch((cause: unknown) => {
    throw damaged(objects.url, key, cause);
  });
  if (digestOf(bytes) !== name.digest || (size !== null && bytes.length !== size)) throw damaged(objects.url, key, undefined);
  return bytes;
}

/** More than any manifest holds (256 MiB). */
const MOST_BYTES = 268_435_456;

function inflate(stored: Uint8Array, most: number): Promise<Uint8Array> {
  return gunzip(stored, { maxOutputLength: Math.max(1, most) });
}

function damaged(url: string, key: Digest, cause: unknown): HeadgateError {
  return new HeadgateError('blob-damaged', 'store', `${url}: ${key} does not hold the bytes that it is named by; restore it from a copy`, {
    cause,
  });
}
