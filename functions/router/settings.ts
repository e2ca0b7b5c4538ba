// Settings of a route: its annotations and header actions, parsed. One that is malformed, unknown or without effect on this
// kind of route is left out alone and reported; an allow-list fails closed instead.

import { shown } from '../../shared/rejection.ts';
import type { Route } from '../cluster/objects.ts';
import { type Parser, allowListItem, anyOf, cookieName, duration, hsts, natural, rewriteTarget } from './annotation-values.ts';
import type { RateLimit, RouteSettings, Termination } from './configuration.ts';
import { readHeaderActions } from './header-actions.ts';
import type { Problem } from './problem.ts';

export interface Settings {
  readonly settings: RouteSettings;
  /** What was left out of them. */
  readonly problems: readonly Problem[];
}

const HAPROXY = 'haproxy.router.openshift.io/';
const ROUTER = 'router.openshift.io/';
const RATE_LIMIT = `${HAPROXY}rate-limit-connections`;
const ALLOW_LIST = `${HAPROXY}ip_allowlist`;
const OLD_ALLOW_LIST = `${HAPROXY}ip_whitelist`;

const ALL: readonly Termination[] = ['http', 'edge', 'reencrypt', 'passthrough'];
/** Terminations whose requests HAProxy sees. */
const HTTP: readonly Termination[] = ['http', 'edge', 'reencrypt'];
const TLS: readonly Termination[] = ['edge', 'reencrypt'];

/** Every annotation that a route may carry, and the terminations that it has an effect on. */
const ANNOTATIONS: Readonly<Record<string, readonly Termination[]>> = {
  [`${HAPROXY}balance`]: ALL,
  [ALLOW_LIST]: ALL,
  [OLD_ALLOW_LIST]: ALL,
  [`${HAPROXY}timeout`]: ALL,
  [`${HAPROXY}timeout-tunnel`]: ALL,
  [RATE_LIMIT]: ALL,
  [`${RATE_LIMIT}.concurrent-tcp`]: ALL,
  [`${RATE_LIMIT}.rate-tcp`]: ALL,
  [`${RATE_LIMIT}.rate-http`]: HTTP,
  [`${HAPROXY}pod-concurrent-connections`]: ALL,
  [`${HAPROXY}set-forwarded-headers`]: HTTP,
  [`${HAPROXY}rewrite-target`]: HTTP,
  [`${HAPROXY}disable_cookies`]: HTTP,
  [`${HAPROXY}hsts_header`]: TLS,
  [`${HAPROXY}h1-adjust-case`]: HTTP,
  [`${ROUTER}cookie_name`]: HTTP,
  [`${ROUTER}cookie-same-site`]: HTTP,
  [`${ROUTER}haproxy.health.check.interval`]: ALL,
};

/** Reads one annotation: null when it is absent or left out. */
type Read = <T>(name: string, parser: Parser<T>) => T | null;

/** What the route's annotations and header actions ask for. */
export function readSettings(route: Route, termination: Termination): Settings {
  const { annotations } = route.meta;
  const problems: Problem[] = uselessAnnotations(annotations, termination);
  const read: Read = (name, { parse, expected }) => {
    const text = annotations[name];
    if (text === undefined || ANNOTATIONS[name]?.includes(termination) !== true) return null;
    const value = parse(text);
    if (value === null) problems.push(invalidAnnotation(name, `${shown(text)} was left out: expected ${expected}`));
    return value;
  };
  const headers = readHeaderActions(termination === 'passthrough' ? [] : route.headerActions);
  if (termination === 'passthrough' && route.headerActions.length > 0)
    problems.push(withoutEffect('spec.httpHeaders.actions', termination));
  const allowList = readAllowList(annotations, problems);
  const settings: RouteSettings = {
    balance: read(`${HAPROXY}balance`, anyOf('roundrobin', 'leastconn', 'source', 'random')),
    allowList,
    ...readTimeouts(read, termination),
    rateLimit: readRateLimit(read),
    podConcurrentConnections: read(`${HAPROXY}pod-concurrent-connections`, natural),
    forwardedHeaders: read(`${HAPROXY}set-forwarded-headers`, anyOf('append', 'replace', 'if-none', 'never')),
    rewriteTarget: read(`${HAPROXY}rewrite-target`, rewriteTarget),
    disableCookies: read(`${HAPROXY}disable_cookies`, anyOf('true', 'false')) === 'true',
    cookieName: read(`${ROUTER}cookie_name`, cookieName),
    cookieSameSite: read(`${ROUTER}cookie-same-site`, anyOf('Lax', 'Strict', 'None')),
    hsts: read(`${HAPROXY}hsts_header`, hsts),
    h1AdjustCase: read(`${HAPROXY}h1-adjust-case`, anyOf('true', 'false')) === 'true',
    healthCheckInterval: read(`${ROUTER}haproxy.health.check.interval`, duration),
    headerEdits: headers.edits,
  };
  return { settings, problems: [...problems, ...headers.problems] };
}

/** A passthrough connection is a tunnel from its first byte, so there the server timeout means the tunnel's. */
function readTimeouts(read: Read, termination: Termination): Pick<RouteSettings, 'timeoutServer' | 'timeoutTunnel'> {
  const server = read(`${HAPROXY}timeout`, duration);
  const tunnel = read(`${HAPROXY}timeout-tunnel`, duration);
  return termination === 'passthrough'
    ? { timeoutServer: null, timeoutTunnel: tunnel ?? server }
    : { timeoutServer: server, timeoutTunnel: tunnel };
}

function readRateLimit(read: Read): RateLimit | null {
  if (read(RATE_LIMIT, anyOf('true', 'false')) !== 'true') return null;
  return {
    concurrentTcp: read(`${RATE_LIMIT}.concurrent-tcp`, natural),
    rateTcp: read(`${RATE_LIMIT}.rate-tcp`, natural),
    rateHttp: read(`${RATE_LIMIT}.rate-http`, natural),
  };
}

/** The newer name wins. Fails closed: malformed items are dropped, and a list without a valid one lets nobody in. */
function readAllowList(annotations: Readonly<Record<string, string>>, problems: Problem[]): string[] | null {
  const name = annotations[ALLOW_LIST] === undefined ? OLD_ALLOW_LIST : ALLOW_LIST;
  const text = annotations[name];
  if (text === undefined) return null;
  const items = text.split(/\s+/).filter((item) => item !== '');
  const read = items.map((item) => ({ item, address: allowListItem(item) }));
  const malformed = read.filter(({ address }) => address === null).map(({ item }) => shown(item));
  const valid = [...new Set(read.flatMap(({ address }) => address ?? []))];
  const consequence = valid.length === 0 ? '; without a valid item nobody is let in' : '';
  if (malformed.length > 0) {
    const named = malformed.length > 5 ? [...malformed.slice(0, 5), `and ${malformed.length - 5} more`] : malformed;
    problems.push(invalidAnnotation(name, `neither addresses nor CIDRs, left out: ${named.join(', ')}${consequence}`));
  } else if (valid.length === 0) problems.push(invalidAnnotation(name, `is empty${consequence}`));
  return valid;
}

/** Annotations of ours that nothing reads: misspelt ones, and those without effect on this termination. */
function uselessAnnotations(annotations: Readonly<Record<string, string>>, termination: Termination): Problem[] {
  const ours = Object.keys(annotations).filter((name) => name.startsWith(HAPROXY) || name.startsWith(ROUTER));
  return ours.flatMap((name): Problem[] => {
    const terminations = Object.hasOwn(ANNOTATIONS, name) ? ANNOTATIONS[name] : undefined;
    if (terminations?.includes(termination) === true) return [];
    if (terminations !== undefined) return [withoutEffect(name, termination)];
    return [{ field: name, reason: 'UnknownAnnotation', message: 'is none of the annotations that this router knows' }];
  });
}

function withoutEffect(field: string, termination: Termination): Problem {
  return { field, reason: 'SettingIgnored', message: `has no effect on a route of termination ${termination}` };
}

function invalidAnnotation(field: string, message: string): Problem {
  return { field, reason: 'InvalidAnnotation', message };
}
