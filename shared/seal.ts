// Sealing: what may not be read from the bucket (private keys, passwords) is encrypted before it reaches storage.
// AES-256-GCM. The nonce is an HMAC of path and content under a derived key: the same content under the same path gives
// the same bytes, so that an unchanged certificate is no new blob, and equality shows nothing across keys.
//
//   "HGSEAL1\n" | key id (8 bytes) | nonce (12) | ciphertext | tag (16)

import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto';
import { HeadgateError } from './error.ts';

const MAGIC = Buffer.from('HGSEAL1\n');
const ID_BYTES = 8;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export interface SealingKey {
  readonly id: Buffer;
  readonly encryption: Buffer;
  readonly nonce: Buffer;
}

/**
 * Reads a sealing key: 32 bytes in base64 or hex.
 * @throws HeadgateError `bad-sealing-key` (stage `usage`); the message never holds the text
 */
export function parseSealingKey(text: string, file: string): SealingKey {
  const trimmed = text.trim();
  const secret = Buffer.from(trimmed, /^[0-9a-f]{64}$/i.test(trimmed) ? 'hex' : 'base64');
  if (secret.length !== 32) {
    throw new HeadgateError(
      'bad-sealing-key',
      'usage',
      `${file} holds no sealing key: expected 32 bytes in base64, as \`openssl rand -base64 32\` prints them`,
    );
  }
  const derive = (purpose: string, bytes: number): Buffer => Buffer.from(hkdfSync('sha256', secret, 'headgate', purpose, bytes));
  return { id: derive('key id', ID_BYTES), encryption: derive('encryption', 32), nonce: derive('nonce', 32) };
}

/** True for files of a version that are sealed when a key is given. */
export function isSecretPath(path: string): boolean {
  return path.startsWith('router/certificates/') || path.startsWith('router/secrets/');
}

/** True when the bytes are what `sealFile` makes. */
export function isSealed(bytes: Uint8Array): boolean {
  return bytes.length >= MAGIC.length && MAGIC.equals(bytes.subarray(0, MAGIC.length));
}

/** Seals a file of a version. It opens only under the same path. */
export function sealFile(plain: string | Uint8Array, key: SealingKey, path: string): Buffer {
  const content = typeof plain === 'string' ? Buffer.from(plain) : plain;
  const nonce = createHmac('sha256', key.nonce).update(path).update('\0').update(content).digest().subarray(0, NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key.encryption, nonce).setAAD(Buffer.from(path));
  return Buffer.concat([MAGIC, key.id, nonce, cipher.update(content), cipher.final(), cipher.getAuthTag()]);
}

/**
 * Opens a sealed file with whichever key sealed it.
 * @throws HeadgateError `no-sealing-key` when none of the keys did, `seal-broken` when the bytes were changed or moved (stage `verify`)
 */
export function openSealed(sealed: Uint8Array, keys: readonly SealingKey[], path: string): Buffer {
  const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
  const nonceAt = MAGIC.length + ID_BYTES;
  const bodyAt = nonceAt + NONCE_BYTES;
  const key = keys.find(({ id }) => id.equals(bytes.subarray(MAGIC.length, nonceAt)));
  if (key === undefined) {
    throw new HeadgateError('no-sealing-key', 'verify', `${path} is sealed with a key that is not here; give it with --sealing-key FILE`);
  }
  try {
    const decipher = createDecipheriv('aes-256-gcm', key.encryption, bytes.subarray(nonceAt, bodyAt), { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(path))
      .setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
    return Buffer.concat([decipher.update(bytes.subarray(bodyAt, bytes.length - TAG_BYTES)), decipher.final()]);
  } catch (cause) {
    throw new HeadgateError('seal-broken', 'verify', `${path} was changed after it was sealed, or belongs to another path`, { cause });
  }
}
