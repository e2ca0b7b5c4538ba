// What a TLS server refuses to load. OpenSSL at security level 2, Debian's default, rejects short keys and certificates
// signed by a CA with a broken digest, in the chain too, and then HAProxy does not start: such a certificate must reject its
// own route before it stops all of them. What is not known to be loaded everywhere counts as refused.

import type { X509Certificate } from 'node:crypto';

const CURVES: ReadonlySet<string> = new Set(['prime256v1', 'secp384r1', 'secp521r1']);

/** Signature algorithms as the hex of their object identifiers: RSA and ECDSA with SHA-2, Ed25519. */
const SIGNATURES: ReadonlySet<string> = new Set([
  ...['0b', '0c', '0d', '0e'].map((digest) => `2a864886f70d0101${digest}`),
  ...['01', '02', '03', '04'].map((digest) => `2a8648ce3d0403${digest}`),
  '2b6570',
]);
const RSASSA_PSS = '2a864886f70d01010a';
/** SHA-256, SHA-384, SHA-512, SHA-224. */
const SHA2: ReadonlySet<string> = new Set(['01', '02', '03', '04'].map((digest) => `6086480165030402${digest}`));

/** Why a server would not load the certificate; null when it would. */
export function weaknessOf(certificate: X509Certificate): string | null {
  if (!hasUsableKey(certificate)) return 'has a key other than RSA of 2048 to 8192 bits, ECDSA P-256, P-384 or P-521, or Ed25519';
  // Nobody relies on the signature of a self-signed certificate, and OpenSSL does not judge it.
  if (certificate.checkIssued(certificate) || isStronglySigned(certificate.raw)) return null;
  return 'is signed with SHA-1, MD5 or another digest that TLS servers refuse: have it issued again with SHA-256';
}

function hasUsableKey(certificate: X509Certificate): boolean {
  const key = publicKeyOf(certificate);
  switch (key?.asymmetricKeyType) {
    case 'rsa': {
      const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
      return bits >= 2_048 && bits <= 8_192;
    }
    case 'ec':
      return CURVES.has(key.asymmetricKeyDetails?.namedCurve ?? '');
    default:
      return key?.asymmetricKeyType === 'ed25519';
  }
}

/** null for a kind of key that OpenSSL does not know: reading it throws. */
function publicKeyOf(certificate: X509Certificate): X509Certificate['publicKey'] | null {
  try {
    return certificate.publicKey;
  } catch {
    return null;
  }
}

/**
 * Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm SEQUENCE { OID, parameters }, signature } (RFC 5280). RSASSA-PSS
 * names its digest in the parameters, [0] { SEQUENCE { OID } }; without it means SHA-1 (RFC 4055).
 */
function isStronglySigned(der: Buffer): boolean {
  const certificate = elementAt(der, 0);
  const body = elementAt(der, certificate.start);
  const algorithm = elementAt(der, body.end);
  const identifier = elementAt(der, algorithm.start);
  const signature = hexOf(der, identifier);
  if (signature !== RSASSA_PSS) return SIGNATURES.has(signature);
  const digest = elementAt(der, elementAt(der, identifier.end).start);
  return digest.tag === 0xa0 && SHA2.has(hexOf(der, elementAt(der, elementAt(der, digest.start).start)));
}

/** One DER element: where its content begins and ends. Past the end of the bytes everything reads as 0, which is no algorithm. */
interface Element {
  readonly tag: number;
  readonly start: number;
  readonly end: number;
}

function elementAt(der: Buffer, offset: number): Element {
  const tag = der[offset] ?? 0;
  const first = der[offset + 1] ?? 0;
  if (first < 0x80) return { tag, start: offset + 2, end: offset + 2 + first };
  const start = offset + 2 + (first & 0x7f);
  const length = der.subarray(offset + 2, start).reduce((sum, byte) => sum * 256 + byte, 0);
  return { tag, start, end: start + length };
}

function hexOf(der: Buffer, element: Element): string {
  return der.toString('hex', element.start, element.end);
}
