// Blobs as they arrive: gzip that may hold anything. Nothing is inflated beyond the size that the head vouches for.

import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { digestOf } from '../shared/digest.ts';
import { HeadgateError } from '../shared/error.ts';
import type { NodeFile } from '../shared/manifest.ts';

const inflate = promisify(gunzip);

/** Bytes that gzip may add to content that does not compress: headers and a few per block. */
const OVERHEAD = 1024;

/**
 * Inflates a blob, at most to its size, and checks it.
 * @throws HeadgateError `bad-blob` (stage `verify`)
 */
export async function inflateBlob(file: NodeFile, stored: Uint8Array): Promise<Buffer> {
  if (stored.length > file.size * 1.01 + OVERHEAD) throw badBlob(file, 'it is larger than its content can be');
  const content = await inflate(stored, { maxOutputLength: Math.max(1, file.size) }).catch((cause: unknown) => {
    throw badBlob(file, 'it does not inflate to its size', cause);
  });
  if (content.length !== file.size || digestOf(content) !== file.digest) throw badBlob(file, 'its content is not what its name says');
  return content;
}

function badBlob(file: NodeFile, why: string, cause?: unknown): HeadgateError {
  return new HeadgateError('bad-blob', 'verify', `blob ${file.digest} (${file.size} bytes) was not accepted: ${why}`, { cause });
}
