// The certificate that serves names which no route's certificate covers: the operator's, a Secret's, or the one below.

import { HeadgateError } from '../../shared/error.ts';
import { type Rejection, shown } from '../../shared/rejection.ts';
import type { LoadedFiles } from '../options.ts';
import { recallCertificate } from './certificate-memo.ts';
import { type KeyPair, isFlaw } from './certificates.ts';
import type { RouteCertificate } from './configuration.ts';
import { type FindSecret, secretSource } from './route-certificates.ts';

export interface DefaultCertificate {
  readonly certificate: RouteCertificate;
  /** Leaf, chain and key. */
  readonly pem: string;
  /** Why the Secret that the options name does not serve. */
  readonly rejection: Rejection | null;
}

/**
 * The default certificate. A Secret that is missing or bad is a rejection, and ours serves meanwhile: it belongs to the cluster,
 * which must not be able to stop the router.
 * @throws HeadgateError `bad-default-certificate` (stage `options`) when the given PEM, or the name of the Secret, is bad
 */
export function defaultCertificate(given: LoadedFiles['defaultCertificate'], findSecret: FindSecret): DefaultCertificate {
  if (given === null) return ours(null);
  return 'pem' in given ? fromFile(given.pem) : fromSecret(given.secret, findSecret);
}

/** What an edge says when `isOurDefaultCertificate`. */
export const OUR_CERTIFICATE_SERVES =
  'the default certificate is the self-signed one of Headgate, whose private key is public: set router.defaultCertificate';

/** Whether it is the one that everybody has the key of. */
export function isOurDefaultCertificate(certificate: RouteCertificate): boolean {
  return certificate.fingerprint === OUR_FINGERPRINT;
}

function fromFile(pem: string): DefaultCertificate {
  const pair = recallCertificate(pem, '', '');
  if (!isFlaw(pair)) return served(pair, null);
  throw new HeadgateError('bad-default-certificate', 'options', `router.defaultCertificate: the ${pair.part} ${pair.flaw}`);
}

function fromSecret(reference: string, findSecret: FindSecret): DefaultCertificate {
  const [namespace = '', name = '', ...rest] = reference.split('/');
  if (namespace === '' || name === '' || rest.length > 0) {
    const message = `router.defaultCertificate.secret: expected namespace/name, found ${shown(reference)}`;
    throw new HeadgateError('bad-default-certificate', 'options', message);
  }
  const refused = (field: string, reason: string, message: string): DefaultCertificate =>
    ours({ kind: 'Secret', namespace, name, scope: 'object', field, reason, message });
  const secret = findSecret(namespace, name);
  const source = secret === undefined ? null : secretSource(secret, 'data');
  if (source === null) {
    return refused(
      '',
      'DefaultCertificateNotFound',
      'router.defaultCertificate names it, and there is no such Secret of type kubernetes.io/tls',
    );
  }
  const pair = recallCertificate(source.pem, source.key, source.chain);
  if (!isFlaw(pair)) return served(pair, null);
  return refused(pair.part === 'key' ? 'data.tls.key' : 'data.tls.crt', 'InvalidCertificate', `the ${pair.part} ${pair.flaw}`);
}

function ours(rejection: Rejection | null): DefaultCertificate {
  return served({ pem: OUR_PEM, fingerprint: OUR_FINGERPRINT }, rejection);
}

function served(pair: KeyPair, rejection: Rejection | null): DefaultCertificate {
  return { certificate: { path: 'certificates/default.pem', fingerprint: pair.fingerprint }, pem: pair.pem, rejection };
}

const OUR_FINGERPRINT = '3e506df1ce6705b8d1e0cf48fab64f562e802d0435c4ca1a0a933ea10f45e14b';

/**
 * Self-signed, CN "Headgate default certificate", 2020 to 2120. ITS KEY IS PUBLIC, here for all to read: it keeps nothing secret and
 * proves nothing. It lets a router start, and answer TLS at all, before anybody has given it a certificate.
 */
const OUR_PEM = `-----BEGIN CERTIFICATE-----
MIIBgDCCASegAwIBAgIUNIeVDt/Qd1xa5hqj7P47neSpNIUwCgYIKoZIzj0EAwIw
JzElMCMGA1UEAwwcSGVhZGdhdGUgZGVmYXVsdCBjZXJ0aWZpY2F0ZTAgFw0yMDAx
MDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowJzElMCMGA1UEAwwcSGVhZGdhdGUg
ZGVmYXVsdCBjZXJ0aWZpY2F0ZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABLUm
WTeFn1OUUbEv0kIqzbku68oGZ/hKjroli1N/CpRdHxgWTxO6P75HLl+7R1sW5lGZ
rJmQryPPrh2y/+/f2YujLzAtMAwGA1UdEwEB/wQCMAAwHQYDVR0OBBYEFJAtzB3X
VSDl00IVyVfftFMeoKVHMAoGCCqGSM49BAMCA0cAMEQCIEZxOV7LJBaHyHYw74nJ
l4GN3DQrwshygfFOGMHfP3wIAiBXtLOzRVTGqgW8x/zPUujdIZWrlplfYvrKdcVh
dAKgLQ==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg5ZIty8mEEQyfiK6a
jHuGfVUxN9FhZteZjFtcwfBBRSihRANCAAS1Jlk3hZ9TlFGxL9JCKs25LuvKBmf4
So66JYtTfwqUXR8YFk8Tuj++Ry5fu0dbFuZRmayZkK8jz64dsv/v39mL
-----END PRIVATE KEY-----
`;
