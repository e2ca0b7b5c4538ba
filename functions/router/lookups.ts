// Map entries: how HAProxy finds the backend of a request. Keys are host + path, looked up as the longest key that host +
// path + `?` begins with, so that entries have no order and need no regular expression:
//
//   route path    keys                        matches
//   none          host?      host/            every path
//   /sub          host/sub?  host/sub/        /sub, /sub/, /sub/x; not /subpar
//   /sub/         host/sub/                   /sub/, /sub/x; not /sub
//
// When both /sub and /sub/ are routes, host/sub/ belongs to the latter.
// A wildcard's keys begin with `*.` and are looked up when none of the exact host's fits.

import { compareText } from '../../shared/json.ts';
import { isMapKey } from '../../shared/router/escape.ts';
import type { AdmittedRoute } from './configuration.ts';
import { hostName, type HostCertificate } from './crt-list.ts';
import { backendName } from './backend.ts';
import { requestedPath } from './paths.ts';
import type { MapEntry, RouterState } from './state.ts';

/** The value that stands for a redirect to https; no backend has this name. */
const REDIRECT = 'redirect';

/** The backend of the base that leads to the frontend which decrypts. */
const TERMINATED = 'be_https';

/** The value of a host whose pods have the certificate. */
const PASSTHROUGH = 'passthrough';

/** True when maps can hold the route: its host and path make keys that end where they should. */
export function canBeLookedUp(route: AdmittedRoute): boolean {
  return keysOf(route).every(isMapKey) && !route.path.includes('?');
}

/** The entries of all maps, sorted by key. */
export function mapEntries(routes: readonly AdmittedRoute[], certificates: readonly HostCertificate[]): RouterState['maps'] {
  const plain = routes.filter((route) => route.termination === 'http' || route.insecure !== 'none');
  const terminated = routes.filter((route) => route.termination === 'edge' || route.termination === 'reencrypt');
  const passthrough = routes.filter((route) => route.termination === 'passthrough');
  return {
    http: pathEntries(plain, (route) => (route.insecure === 'redirect' && route.termination !== 'http' ? REDIRECT : backendName(route))),
    https: pathEntries(terminated, backendName),
    sni: sorted([
      ...passthrough.map((route) => ({ key: hostName(route), value: backendName(route) })),
      ...terminatedBelow(passthrough, terminated),
    ]),
    certificate: sorted([
      ...certificates.map(({ host, name }) => ({ key: host, value: name })),
      ...passthrough.map((route) => ({ key: hostName(route), value: PASSTHROUGH })),
    ]),
  };
}

/** An exact host that is decrypted here wins over a wildcard that passes through: without an entry of its own it would be the wildcard's. */
function terminatedBelow(passthrough: readonly AdmittedRoute[], terminated: readonly AdmittedRoute[]): MapEntry[] {
  const wildcards = new Set(passthrough.filter(({ wildcard }) => wildcard).map(({ host }) => host));
  return terminated
    .filter(({ wildcard, host }) => !wildcard && wildcards.has(host.slice(host.indexOf('.') + 1)))
    .map(({ host }) => ({ key: host, value: TERMINATED }));
}

function pathEntries(routes: readonly AdmittedRoute[], valueOf: (route: AdmittedRoute) => string): MapEntry[] {
  const owners = new Set(routes.map((route) => `${hostName(route)}${requestedPath(route.path)}`));
  return sorted(
    routes.flatMap((route) => {
      const value = valueOf(route);
      return keysOf(route)
        .filter((key) => route.path.endsWith('/') || !owners.has(key))
        .map((key) => ({ key, value }));
    }),
  );
}

function keysOf(route: AdmittedRoute): string[] {
  const whole = `${hostName(route)}${requestedPath(route.path)}`;
  return route.path.endsWith('/') ? [whole] : [`${whole}?`, `${whole}/`];
}

/** The first of equal keys stays: HAProxy would answer with it as well. */
function sorted(entries: readonly MapEntry[]): MapEntry[] {
  const first = new Map(entries.toReversed().map((entry) => [entry.key, entry]));
  return [...first.values()].sort((a, b) => compareText(a.key, b.key));
}
