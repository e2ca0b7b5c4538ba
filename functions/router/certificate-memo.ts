// What parseCertificate said before: judging a key pair costs half a millisecond, and a cluster has thousands that hardly
// ever change. Nothing can be seen of it from outside: the same texts give the same answer, remembered or not.

import { type Digest, digestOf } from '../../shared/digest.ts';
import { type Flaw, type KeyPair, parseCertificate } from './certificates.ts';

/** Above it the pairs used least recently are forgotten. */
const CAPACITY = 10_000;

const remembered = new Map<Digest, KeyPair | Flaw>();

/** parseCertificate, from memory where it can. */
export function recallCertificate(pem: string, key: string, chain: string): KeyPair | Flaw {
  const digest = digestOf(JSON.stringify([pem, key, chain]));
  const judged = remembered.get(digest) ?? parseCertificate(pem, key, chain);
  remembered.delete(digest);
  remembered.set(digest, judged);
  const [oldest] = remembered.keys();
  if (remembered.size > CAPACITY && oldest !== undefined) remembered.delete(oldest);
  return judged;
}
