// Certificates, judged and written anew: what leaves here is a leaf, its chain and its key in clean PEM that HAProxy loads,
// whatever was pasted into the route. Flaws are told in words of ours only: no text of a certificate or a key, and no error
// of the library, which may quote one.

import { type KeyObject, X509Certificate, createPrivateKey } from 'node:crypto';
import { type Digest, digestOf } from '../../shared/digest.ts';
import { weaknessOf } from './certificate-strength.ts';
import { type PemBlock, readPem } from './pem.ts';

/** A certificate with its private key. Secret as a whole. */
export interface KeyPair {
  /** Leaf, chain and key (PKCS #8), without blank lines: one would end a payload of HAProxy's runtime socket. */
  readonly pem: string;
  /** sha256 of the leaf's DER. */
  readonly fingerprint: Digest;
}

/** What is wrong, and with which of the three texts. */
export interface Flaw {
  readonly part: 'certificate' | 'key' | 'chain';
  /** Stands after the part's name: `holds no certificate`. */
  readonly flaw: string;
}

/** Longer texts are refused unread: a chain of ten RSA certificates has about 20 KB. */
const LONGEST = 131_072;

/**
 * Judges a certificate with its key. The leaf is the first certificate; further ones in its text, then those of `chain`, follow it.
 * Without a key of its own the first one found in the certificate's text is taken. Expiry is not judged: there is no clock here.
 * @param pem  the certificate's text
 * @param key  the key's text; empty when it is bundled
 * @param chain  texts of further certificates; empty for none
 */
export function parseCertificate(pem: string, key: string, chain: string): KeyPair | Flaw {
  const leafBlocks = readBlocks(pem, 'certificate');
  if (isFlaw(leafBlocks)) return leafBlocks;
  const chainBlocks = readBlocks(chain, 'chain');
  if (isFlaw(chainBlocks)) return chainBlocks;
  const certificates = readCertificates(leafBlocks, 'certificate');
  if (isFlaw(certificates)) return certificates;
  const [leaf] = certificates;
  if (leaf === undefined) return { part: 'certificate', flaw: 'holds no certificate in PEM' };
  const issuers = readCertificates(chainBlocks, 'chain');
  if (isFlaw(issuers)) return issuers;
  const keyBlocks = key.trim() === '' ? leafBlocks : readBlocks(key, 'key');
  if (isFlaw(keyBlocks)) return keyBlocks;
  const privateKey = readKey(keyBlocks);
  if (isFlaw(privateKey)) return privateKey;
  if (!belongTogether(leaf, privateKey)) return { part: 'key', flaw: 'is not the key of the certificate' };
  const written = distinct([...certificates, ...issuers]).map((certificate) => certificate.toString());
  return { pem: clean([...written, privateKey.export({ type: 'pkcs8', format: 'pem' })]), fingerprint: digestOf(leaf.raw) };
}

/** The certificates of a text in clean PEM, each once, in their order; a flaw when there is none or one does not parse. */
export function parseAuthorities(pem: string): string | Flaw {
  const blocks = readBlocks(pem, 'certificate');
  if (isFlaw(blocks)) return blocks;
  const authorities = decodeCertificates(blocks);
  if (authorities === null) return { part: 'certificate', flaw: 'holds a certificate that does not parse' };
  if (authorities.length === 0) return { part: 'certificate', flaw: 'holds no certificate in PEM' };
  return clean(distinct(authorities).map((authority) => authority.toString()));
}

/** Whether a text has PEM comments and nothing else: the field's stand-in for an absent CA (routes made for an Ingress carry it). */
export function isPemComment(pem: string): boolean {
  const blocks = readPem(pem);
  return blocks !== null && blocks.length > 0 && blocks.every((block) => block.label === 'COMMENT');
}

export function isFlaw(judged: unknown): judged is Flaw {
  return typeof judged === 'object' && judged !== null && 'flaw' in judged;
}

function readBlocks(text: string, part: Flaw['part']): PemBlock[] | Flaw {
  if (text.length > LONGEST) return { part, flaw: `is longer than ${LONGEST} characters` };
  return readPem(text) ?? { part, flaw: 'is not PEM: a block does not end, or is not base64' };
}

function readCertificates(blocks: readonly PemBlock[], part: Flaw['part']): X509Certificate[] | Flaw {
  const certificates = decodeCertificates(blocks);
  if (certificates === null) return { part, flaw: 'holds a certificate that does not parse' };
  const [weakness] = certificates.flatMap((certificate) => weaknessOf(certificate) ?? []);
  return weakness === undefined ? certificates : { part, flaw: weakness };
}

function decodeCertificates(blocks: readonly PemBlock[]): X509Certificate[] | null {
  try {
    return blocks.filter(isCertificate).map((block) => new X509Certificate(block.der));
  } catch {
    return null;
  }
}

function isCertificate(block: PemBlock): boolean {
  return block.label === 'CERTIFICATE' || block.label === 'X509 CERTIFICATE';
}

/** Structures of a private key's DER by the block's label. */
const KEY_TYPES: ReadonlyMap<string, 'pkcs1' | 'pkcs8' | 'sec1'> = new Map([
  ['PRIVATE KEY', 'pkcs8'],
  ['RSA PRIVATE KEY', 'pkcs1'],
  ['EC PRIVATE KEY', 'sec1'],
]);

function readKey(blocks: readonly PemBlock[]): KeyObject | Flaw {
  const block = blocks.find(({ label }) => label.endsWith('PRIVATE KEY'));
  if (block === undefined) return { part: 'key', flaw: 'is missing: there is no private key in PEM' };
  if (block.encrypted || block.label === 'ENCRYPTED PRIVATE KEY')
    return { part: 'key', flaw: 'is encrypted: give it without a passphrase' };
  const type = KEY_TYPES.get(block.label);
  try {
    if (type !== undefined) return createPrivateKey({ key: block.der, format: 'der', type });
  } catch {
    // Told below, without the library's words.
  }
  return { part: 'key', flaw: 'does not parse as an RSA, EC or PKCS #8 private key' };
}

function belongTogether(leaf: X509Certificate, key: KeyObject): boolean {
  try {
    return leaf.checkPrivateKey(key);
  } catch {
    return false;
  }
}

function distinct(certificates: readonly X509Certificate[]): X509Certificate[] {
  return [...new Map(certificates.map((certificate) => [certificate.fingerprint256, certificate])).values()];
}

function clean(blocks: readonly (string | Buffer)[]): string {
  return blocks.map((block) => `${block.toString().trim()}\n`).join('');
}
