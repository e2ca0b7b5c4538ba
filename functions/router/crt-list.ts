// Which certificate a host is served with, and which of them offer HTTP/2. Browsers send requests for several hosts over
// one HTTP/2 connection when its certificate names them all; so only a certificate that a single host uses offers it.

import { compareText } from '../../shared/json.ts';
import type { AdmittedRoute, RouteCertificate, RouterConfiguration } from './configuration.ts';
import type { CrtListEntry } from './state.ts';

export interface HostCertificate {
  /** `*.example.com` for every host one label below. */
  readonly host: string;
  readonly certificate: RouteCertificate;
  /** What tells certificates apart at run time: the fingerprint, or `default`, which may be renewed without notice. */
  readonly name: string;
}

/** The host as maps and crt-lists write it. */
export function hostName(route: AdmittedRoute): string {
  return route.wildcard ? `*.${route.host}` : route.host;
}

/** The certificate of each host that is served with TLS here, sorted by host: the first given by one of its routes, else the default one. */
export function hostCertificates(configuration: RouterConfiguration, routes: readonly AdmittedRoute[]): HostCertificate[] {
  const given = new Map<string, RouteCertificate | null>();
  for (const route of routes) {
    if (route.termination !== 'edge' && route.termination !== 'reencrypt') continue;
    const host = hostName(route);
    given.set(host, given.get(host) ?? route.certificate);
  }
  const standard = configuration.defaultCertificate;
  return [...given]
    .map(([host, certificate]) =>
      certificate === null || certificate.fingerprint === standard.fingerprint
        ? { host, certificate: standard, name: 'default' }
        : { host, certificate, name: certificate.fingerprint },
    )
    .sort((a, b) => compareText(a.host, b.host));
}

/**
 * The crt-list. A host of the default certificate needs an entry only to offer HTTP/2, or because a wildcard's certificate would be
 * served instead.
 */
export function crtListEntries(certificates: readonly HostCertificate[], http2: boolean): CrtListEntry[] {
  const hosts = new Map<string, number>();
  for (const { name } of certificates) hosts.set(name, (hosts.get(name) ?? 0) + 1);
  const ownWildcards = new Set(
    certificates.filter(({ host, name }) => host.startsWith('*.') && name !== 'default').map(({ host }) => host),
  );
  return certificates.flatMap(({ host, certificate, name }) => {
    const offersHttp2 = http2 && hosts.get(name) === 1;
    const covered = ownWildcards.has(`*${host.slice(host.indexOf('.'))}`);
    if (name === 'default' && !offersHttp2 && !covered) return [];
    return [{ certificate: certificate.path, alpn: offersHttp2 ? ['h2', 'http/1.1'] : ['http/1.1'], host }];
  });
}
