// Validation of one route by itself: is every field something that the router can serve? Who owns the host, certificates and
// annotations are judged elsewhere, names were when the object was read. The first problem found rejects the route.

import { shown } from '../../shared/rejection.ts';
import type { Route, RouteTarget, RouteTls } from '../cluster/objects.ts';
import type { RouterOptions } from '../options.ts';
import type { AdmittedRoute, InsecurePolicy, RouteService, Termination } from './configuration.ts';
import { isDnsLabel, isDnsSubdomain, isWithinDomain, parentDomain } from './hosts.ts';
import { pathFlaw } from './paths.ts';
import { type Problem, isProblem } from './problem.ts';

/** An admitted route but for what certificates and annotations add. */
export type RouteFields = Omit<AdmittedRoute, 'certificate' | 'destinationCA' | 'settings'>;

type HostFields = Pick<RouteFields, 'host' | 'displayHost' | 'wildcard'>;

/** The route's own fields, judged, or the first thing wrong with them. */
export function validateRoute(route: Route, options: RouterOptions): RouteFields | Problem {
  const host = readHost(route, options);
  if (isProblem(host)) return host;
  const unwelcome = domainProblem(host, options);
  if (unwelcome !== null) return unwelcome;
  const security = readSecurity(route.tls);
  if (isProblem(security)) return security;
  const path = readPath(route.path, security.termination);
  if (isProblem(path)) return path;
  const services = readServices(route);
  if (isProblem(services)) return services;
  const targetPort = readTargetPort(route.targetPort);
  if (isProblem(targetPort)) return targetPort;
  return { namespace: route.meta.namespace, name: route.meta.name, ...security, ...host, ...path, services, ...targetPort };
}

function readHost(route: Route, options: RouterOptions): HostFields | Problem {
  const named = route.host !== null && route.host !== '';
  const field = named || route.subdomain === null ? 'spec.host' : 'spec.subdomain';
  const host = named ? route.host : completedSubdomain(route.subdomain, options.domain);
  if (host === null) return { field, reason: 'NoHostValue', message: 'neither spec.host nor a subdomain of a router.domain names a host' };
  if (!isDnsSubdomain(host)) {
    const rule = 'lowercase labels of at most 63 letters, digits and -, joined by dots, at most 253 characters';
    return { field, reason: 'InvalidHost', message: `${shown(host)} is not a host: expected ${rule}` };
  }
  return readWildcard(route, field, host, options);
}

function completedSubdomain(subdomain: string | null, domain: string | null): string | null {
  return subdomain === null || subdomain === '' || domain === null || domain === '' ? null : `${subdomain}.${domain}`;
}

function readWildcard(route: Route, field: string, host: string, options: RouterOptions): HostFields | Problem {
  const policy = route.wildcardPolicy ?? 'None';
  if (policy === 'None' || policy === '') return { host, displayHost: host, wildcard: false };
  const refused = (message: string): Problem => ({ field: 'spec.wildcardPolicy', reason: 'RouteNotAdmitted', message });
  if (policy !== 'Subdomain') return refused(`${shown(policy)} is not a wildcard policy: expected None or Subdomain`);
  if (!options.allowWildcardRoutes) return refused('this router does not allow wildcard routes (router.allowWildcardRoutes)');
  const parent = parentDomain(host);
  if (parent !== '') return { host: parent, displayHost: host, wildcard: true };
  return { field, reason: 'InvalidHost', message: `a wildcard needs a domain above it: ${shown(host)} has one label only` };
}

/** Denied wins. A wildcard is judged by all that it would serve: its whole domain must be allowed, and no denied host may match it. */
function domainProblem({ host, displayHost, wildcard }: HostFields, options: RouterOptions): Problem | null {
  const denies = (domain: string): boolean => isWithinDomain(host, domain) || (wildcard && parentDomain(domain) === host);
  const denied = options.deniedDomains.some(denies);
  const { allowedDomains } = options;
  const allowed = allowedDomains.length === 0 || allowedDomains.some((domain) => isWithinDomain(host, domain));
  if (allowed && !denied) return null;
  const why = denied ? 'is in a domain that this router denies (router.deniedDomains)' : 'is in none of router.allowedDomains';
  return { field: 'spec.host', reason: 'RouteNotAdmitted', message: `${shown(displayHost)} ${why}` };
}

const TERMINATIONS: ReadonlyMap<string, Termination> = new Map([
  ['edge', 'edge'],
  ['reencrypt', 'reencrypt'],
  ['passthrough', 'passthrough'],
]);

const INSECURE_POLICIES: ReadonlyMap<string, InsecurePolicy> = new Map([
  ['', 'none'],
  ['None', 'none'],
  ['Allow', 'allow'],
  ['Redirect', 'redirect'],
]);

function readSecurity(tls: RouteTls | null): Pick<RouteFields, 'termination' | 'insecure'> | Problem {
  if (tls === null) return { termination: 'http', insecure: 'allow' };
  const termination = TERMINATIONS.get(tls.termination);
  if (termination === undefined) {
    const message = `${shown(tls.termination)} is not a termination: expected edge, reencrypt or passthrough`;
    return { field: 'spec.tls.termination', reason: 'InvalidTermination', message };
  }
  const insecure = INSECURE_POLICIES.get(tls.insecurePolicy ?? '');
  if (insecure !== undefined && !(termination === 'passthrough' && insecure === 'allow')) return { termination, insecure };
  const expected = termination === 'passthrough' ? 'None or Redirect' : 'None, Allow or Redirect';
  const message = `${shown(tls.insecurePolicy ?? '')} is not a policy for ${termination}: expected ${expected}`;
  return { field: 'spec.tls.insecureEdgeTerminationPolicy', reason: 'InvalidInsecurePolicy', message };
}

function readPath(path: string | null, termination: Termination): Pick<RouteFields, 'path'> | Problem {
  if (path === null || path === '' || path === '/') return { path: '' };
  const flaw = termination === 'passthrough' ? 'cannot be seen by a passthrough route' : pathFlaw(path);
  return flaw === null ? { path } : { field: 'spec.path', reason: 'InvalidPath', message: `${shown(path)} ${flaw}` };
}

/** Each service once, where it was first named, with the weight it was last given. */
function readServices(route: Route): RouteService[] | Problem {
  const weights = new Map<string, number>();
  for (const [index, target] of [route.to, ...route.alternateBackends].entries()) {
    const field = index === 0 ? 'spec.to' : `spec.alternateBackends[${index - 1}]`;
    const problem = targetProblem(target, field);
    if (problem !== null) return problem;
    weights.set(target.name, clampedWeight(target.weight));
  }
  return [...weights].map(([name, weight]) => ({ name, weight }));
}

function targetProblem(target: RouteTarget, field: string): Problem | null {
  const invalid = (message: string): Problem => ({ field, reason: 'InvalidTarget', message });
  if (target.kind !== 'Service' && target.kind !== '') return invalid(`${shown(target.kind)} is not a kind of target: expected Service`);
  return isDnsLabel(target.name) ? null : invalid(`${shown(target.name)} is not a name of a service`);
}

function clampedWeight(weight: number | null): number {
  return Math.min(Math.max(Math.trunc(weight ?? 1), 0), 256);
}

/** A number, or the name of an endpoint port. A number written as text means the number, as in the field. */
function readTargetPort(port: string | number | null): Pick<RouteFields, 'targetPort'> | Problem {
  if (port === null) return { targetPort: null };
  const number = typeof port === 'number' || /^\d{1,5}$/.test(port) ? Number(port) : null;
  const valid = number === null ? isDnsLabel(String(port)) : Number.isInteger(number) && number >= 1 && number <= 65_535;
  if (valid) return { targetPort: number ?? port };
  const message = `${shown(String(port))} is not a port: expected 1 to 65535 or the name of one`;
  return { field: 'spec.port.targetPort', reason: 'InvalidTargetPort', message };
}
