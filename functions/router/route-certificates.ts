// Which certificates a route brings: in its own fields or from a Secret, the one that it serves and the CA that verifies its
// pods. Fields that its kind of route has no use for are left out and said to be.

import { digestOf } from '../../shared/digest.ts';
import { shown } from '../../shared/rejection.ts';
import type { Route, RouteTls, Secret } from '../cluster/objects.ts';
import { recallCertificate } from './certificate-memo.ts';
import { type Flaw, isFlaw, isPemComment, parseAuthorities } from './certificates.ts';
import type { RouteCertificate, Termination } from './configuration.ts';
import { type Problem, isProblem } from './problem.ts';

/** The Secret of that namespace and name, if there is one. */
export type FindSecret = (namespace: string, name: string) => Secret | undefined;

export interface RouteCertificates {
  readonly certificate: RouteCertificate | null;
  readonly destinationCA: string | null;
  /** Their texts by path, relative to `router/`. Secret. */
  readonly files: ReadonlyMap<string, string>;
  /** Fields left out. */
  readonly ignored: readonly Problem[];
}

/** The texts that a certificate is made of, and the fields that they came from. */
interface Source {
  readonly pem: string;
  readonly key: string;
  readonly chain: string;
  readonly fields: Readonly<Record<Flaw['part'], string>>;
}

/** A route's certificates, or what is wrong with one of them: then the route is rejected. */
export function routeCertificates(route: Route, termination: Termination, findSecret: FindSecret): RouteCertificates | Problem {
  const { tls } = route;
  if (tls === null) return { certificate: null, destinationCA: null, files: new Map(), ignored: [] };
  const serving = termination === 'passthrough' ? null : servingCertificate(route, tls, findSecret);
  if (isProblem(serving)) return serving;
  const authority = termination === 'reencrypt' ? destinationAuthority(tls) : null;
  if (isProblem(authority)) return authority;
  return {
    certificate: serving?.certificate ?? null,
    destinationCA: authority?.path ?? null,
    files: new Map([
      ...(serving === null ? [] : [[serving.certificate.path, serving.pem] as const]),
      ...(authority === null ? [] : [[authority.path, authority.pem] as const]),
    ]),
    ignored: ignoredFields(tls, termination),
  };
}

/** Where a CA's certificates stand in a version: by their content, since HAProxy never reads a CA file again under the same name. */
export function authorityPath(pem: string): string {
  return `certificates/ca-${digestOf(pem)}.pem`;
}

/** A file name has at most 255 bytes; a namespace and a route's name may have more together. */
function certificatePath(namespace: string, name: string): string {
  const key = `${namespace}:${name}`;
  return `certificates/${key.length <= 200 ? key : `long-${digestOf(key)}`}.pem`;
}

function servingCertificate(
  route: Route,
  tls: RouteTls,
  findSecret: FindSecret,
): { readonly certificate: RouteCertificate; readonly pem: string } | Problem | null {
  const source = certificateSource(route, tls, findSecret);
  if (source === null || isProblem(source)) return source;
  const pair = recallCertificate(source.pem, source.key, source.chain);
  if (isFlaw(pair)) return invalidCertificate(source.fields[pair.part], `the ${pair.part} ${pair.flaw}`);
  const path = certificatePath(route.meta.namespace, route.meta.name);
  return { certificate: { path, fingerprint: pair.fingerprint }, pem: pair.pem };
}

function certificateSource(route: Route, tls: RouteTls, findSecret: FindSecret): Source | Problem | null {
  const { certificate: pem, key, externalCertificate } = tls;
  if (isGiven(externalCertificate)) {
    if (!isGiven(pem) && !isGiven(key)) return externalSource(route, externalCertificate, findSecret);
    return invalidCertificate('spec.tls.externalCertificate', 'stands beside spec.tls.certificate or spec.tls.key: give one of them');
  }
  if (isGiven(pem)) {
    const fields = { certificate: 'spec.tls.certificate', key: 'spec.tls.key', chain: 'spec.tls.caCertificate' };
    return { pem, key: key ?? '', chain: tls.caCertificate ?? '', fields };
  }
  return isGiven(key) ? invalidCertificate('spec.tls.certificate', 'is missing beside spec.tls.key') : null;
}

function externalSource(route: Route, name: string, findSecret: FindSecret): Source | Problem {
  const field = 'spec.tls.externalCertificate';
  const secret = findSecret(route.meta.namespace, name);
  const source = secret === undefined ? null : secretSource(secret, field);
  if (source !== null) return source;
  const message = `there is no Secret ${shown(name)} of type kubernetes.io/tls in the route's namespace`;
  return { field, reason: 'ExternalCertificateNotFound', message };
}

/** The key pair of a `kubernetes.io/tls` Secret; null when it is of another type. */
export function secretSource(secret: Secret, field: string): Source | null {
  if (secret.type !== 'kubernetes.io/tls') return null;
  const text = (key: string): string => Buffer.from(secret.data.get(key) ?? []).toString('latin1');
  return { pem: text('tls.crt'), key: text('tls.key'), chain: '', fields: { certificate: field, key: field, chain: field } };
}

function destinationAuthority(tls: RouteTls): { readonly path: string; readonly pem: string } | Problem | null {
  const text = tls.destinationCACertificate;
  if (!isGiven(text) || isPemComment(text)) return null;
  const pem = parseAuthorities(text);
  if (isFlaw(pem)) return invalidCertificate('spec.tls.destinationCACertificate', `the CA ${pem.flaw}`);
  return { path: authorityPath(pem), pem };
}

function ignoredFields(tls: RouteTls, termination: Termination): Problem[] {
  const unused: (readonly [field: string, text: string | null])[] = [];
  if (termination === 'passthrough') {
    unused.push(['certificate', tls.certificate], ['key', tls.key], ['caCertificate', tls.caCertificate]);
    unused.push(['externalCertificate', tls.externalCertificate]);
  }
  if (termination !== 'reencrypt') unused.push(['destinationCACertificate', tls.destinationCACertificate]);
  return unused
    .filter(([, text]) => isGiven(text))
    .map(([field]) => ({
      field: `spec.tls.${field}`,
      reason: 'CertificateIgnored',
      message: `has no effect on a route of termination ${termination}`,
    }));
}

function isGiven(text: string | null): text is string {
  return text !== null && text.trim() !== '';
}

function invalidCertificate(field: string, message: string): Problem {
  return { field, reason: 'InvalidCertificate', message };
}
