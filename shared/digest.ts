// Digests and shards: how bytes and keys are named everywhere.

import { createHash, hash } from 'node:crypto';

/** Lowercase hex sha256 of bytes (64 characters). */
export type Digest = string;

/** True when the text is a digest as we write it. */
export function isDigest(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}

/** sha256 of text (as UTF-8) or bytes, in lowercase hex. */
export function digestOf(content: string | Uint8Array): Digest {
  return typeof hash === 'function' ? hash('sha256', content, 'hex') : createHash('sha256').update(content).digest('hex');
}

/** The shard of a key: the first byte of its sha256 as two hex digits, so at most 256 shards and a change touches one. */
export function shardOf(key: string): string {
  return digestOf(key).slice(0, 2);
}
