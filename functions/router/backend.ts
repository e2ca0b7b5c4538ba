// A route's backend but for its servers: every setting of the route as what HAProxy does about it. Nothing here depends on endpoints,
// so that endpoints alone never change a backend's stanza.

import { digestOf } from '../../shared/digest.ts';
import { word } from '../../shared/router/escape.ts';
import type { AdmittedRoute, ForwardedHeaders, Termination } from './configuration.ts';
import type { RouterOptions } from '../options.ts';
import { requestedPath } from './paths.ts';
import type { AllowList, Backend, Cookie, Forwarded, Rewrite } from './state.ts';

const PREFIXES: Readonly<Record<Termination, string>> = {
  http: 'be_http',
  edge: 'be_edge_http',
  reencrypt: 'be_secure',
  passthrough: 'be_tcp',
};

/** HAProxy takes 64 words on a line. */
const ADDRESSES_IN_A_ROW = 40;

/** `be_edge_http:<namespace>:<name>` and so on by termination. */
export function backendName(route: Pick<AdmittedRoute, 'namespace' | 'name' | 'termination'>): string {
  return word(`${PREFIXES[route.termination]}:${route.namespace}:${route.name}`);
}

/** The route's backend, without servers. */
export function routeBackend(route: AdmittedRoute, options: RouterOptions): Omit<Backend, 'servers'> {
  const { settings } = route;
  const common = {
    name: backendName(route),
    balance: settings.balance ?? (isWeighted(route) ? 'roundrobin' : passes(route) ? options.tcpBalance : options.balance),
    allowList: settings.allowList === null ? null : allowList(settings.allowList),
    rateLimit: settings.rateLimit,
  };
  if (passes(route)) {
    return {
      ...common,
      mode: 'tcp',
      serverTimeout: null,
      tunnelTimeout: settings.timeoutTunnel ?? settings.timeoutServer,
      forwarded: null,
      rewrite: null,
      cookie: null,
      hsts: null,
      headerEdits: [],
      adjustCase: false,
    };
  }
  return {
    ...common,
    mode: 'http',
    serverTimeout: settings.timeoutServer,
    tunnelTimeout: settings.timeoutTunnel,
    forwarded: forwarded(settings.forwardedHeaders ?? options.forwardedHeaders),
    rewrite: settings.rewriteTarget === null ? null : rewrite(route.path, settings.rewriteTarget),
    cookie: settings.disableCookies ? null : cookie(route),
    hsts: route.termination === 'http' ? null : settings.hsts,
    headerEdits: settings.headerEdits,
    adjustCase: settings.h1AdjustCase,
  };
}

function passes(route: AdmittedRoute): boolean {
  return route.termination === 'passthrough';
}

/** Whether weights share traffic between services. */
function isWeighted(route: AdmittedRoute): boolean {
  return route.services.filter(({ weight }) => weight > 0).length > 1;
}

function allowList(addresses: readonly string[]): AllowList {
  const rows: string[][] = [];
  for (let start = 0; start < addresses.length; start += ADDRESSES_IN_A_ROW) rows.push(addresses.slice(start, start + ADDRESSES_IN_A_ROW));
  return { rows };
}

function forwarded(policy: ForwardedHeaders): Forwarded | null {
  if (policy === 'never') return null;
  return { action: policy === 'append' ? 'add-header' : 'set-header', onlyWhenMissing: policy === 'if-none' };
}

/** The matched prefix is replaced, the rest kept. Only the target `/` takes the place of a slash after the prefix as well. */
function rewrite(path: string, target: string): Rewrite {
  const cut = requestedPath(path).length;
  return { target, cut, cutSlash: target === '/' ? cut + 1 : null };
}

/** Routes of one host with different paths must not share a cookie: the name of one with a path carries a digest. */
function cookie(route: AdmittedRoute): Cookie {
  const { cookieName, cookieSameSite } = route.settings;
  const digest = digestOf(backendName(route));
  const tlsOnly = route.termination !== 'http' && route.insecure !== 'allow';
  return {
    name: cookieName ?? (route.path === '' ? 'HEADGATE' : `HEADGATE_${digest.slice(0, 16)}`),
    secure: tlsOnly,
    sameSite: tlsOnly ? (cookieSameSite ?? 'None') : cookieSameSite === 'None' ? null : cookieSameSite,
    key: digest.slice(0, 32),
  };
}
