// A Secret that holds a certificate (`tls.crt`), projected. Nothing of its values reaches a message.

import { type Fields, WrongField, optionalObject, optionalText, pathOf, text } from './fields.ts';
import { readNamespacedName } from './metadata.ts';
import type { Secret } from './objects.ts';

/** The entries that we use; others are not kept. */
const ENTRIES = ['tls.crt', 'tls.key', 'ca.crt'] as const;

/** Null for a Secret without a certificate. Throws WrongField. */
export function projectSecret(whole: Fields): Secret | null {
  const own = readNamespacedName(whole);
  const encoded = optionalObject(whole, 'data');
  const plain = optionalObject(whole, 'stringData');
  const data = new Map<string, Uint8Array>();
  if (!holdsCertificate(encoded) && !holdsCertificate(plain)) return null;
  for (const entry of ENTRIES) {
    // The API server merges `stringData`, which only manifests have, over `data`.
    const written = plain === null ? null : optionalText(plain, entry);
    const bytes = written === null ? decoded(encoded, entry) : Buffer.from(written, 'utf8');
    if (bytes !== null) data.set(entry, bytes);
  }
  return { ...own, type: text(whole, 'type', 'Opaque'), data };
}

function holdsCertificate(entries: Fields | null): boolean {
  return entries !== null && entries.values['tls.crt'] !== undefined;
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

function decoded(entries: Fields | null, entry: string): Uint8Array | null {
  const written = entries === null ? null : optionalText(entries, entry);
  if (entries === null || written === null) return null;
  const base64 = written.replace(/[\r\n]/g, '');
  if (base64.length % 4 === 0 && BASE64.test(base64)) return Buffer.from(base64, 'base64');
  throw new WrongField(pathOf(entries, entry), 'WrongType', 'expected base64');
}
