// Certificates that are served although they have expired: a warning for each. Apart from admission, which knows no time; who has a
// clock asks.

import { X509Certificate } from 'node:crypto';
import type { Files } from '../../shared/files.ts';
import { type Rejection, sortRejections } from '../../shared/rejection.ts';
import type { Route } from '../cluster/objects.ts';
import type { RouterAdmission } from './admit.ts';
import { routeRejection } from './problem.ts';

/**
 * The warnings, sorted.
 * @param routes  those that were admitted from: they say where a certificate came from
 * @param now  milliseconds since the epoch
 */
export function expiredCertificates(routes: readonly Route[], { configuration, secrets }: RouterAdmission, now: number): Rejection[] {
  const fields = new Map(routes.map(({ meta, tls }) => [`${meta.namespace}/${meta.name}`, fieldOf(tls)]));
  const expired = configuration.routes.filter(({ certificate }) => certificate !== null && endOf(certificate.path, secrets) < now);
  return sortRejections(
    expired.map((route) =>
      routeRejection(route, 'setting', {
        field: fields.get(`${route.namespace}/${route.name}`) ?? 'spec.tls.certificate',
        reason: 'CertificateExpired',
        message: 'the certificate has expired; it is served all the same',
      }),
    ),
  );
}

function fieldOf(tls: Route['tls']): string {
  return tls?.externalCertificate ? 'spec.tls.externalCertificate' : 'spec.tls.certificate';
}

/** Milliseconds since the epoch. The leaf stands first. */
function endOf(path: string, secrets: Files): number {
  const pem = secrets.get(`router/${path}`);
  return pem === undefined ? Number.POSITIVE_INFINITY : Date.parse(new X509Certificate(pem).validTo);
}
