// Claims: who owns a host. Routes come in the order of their age and claim what nobody holds yet; a route that is refused
// claims nothing, so the next one may have what it asked for. There is no memory: when the owner goes, the next claims.

import { compareText } from '../../shared/json.ts';
import type { AdmittedRoute } from './configuration.ts';
import { parentDomain } from './hosts.ts';
import type { Problem } from './problem.ts';

/** A valid route that asks to be served. */
export interface Claimant {
  readonly route: AdmittedRoute;
  /** Seconds since the epoch. */
  readonly created: number;
  readonly uid: string;
}

export interface Claims<C extends Claimant> {
  /** Oldest first. */
  readonly admitted: readonly C[];
  readonly refused: readonly { readonly claimant: C; readonly problem: Problem }[];
}

/** What the routes admitted so far hold. Values are the oldest holders. */
interface Ledger {
  /** By host or `*.domain`. */
  readonly hosts: Map<string, AdmittedRoute>;
  /** By host and path. */
  readonly paths: Map<string, AdmittedRoute>;
  /** Holders of exact hosts by the domain one level up, one of each namespace: what a wildcard would cover. */
  readonly below: Map<string, Map<string, AdmittedRoute>>;
  readonly passthrough: Map<string, AdmittedRoute>;
  /** Those whose TLS the router terminates. */
  readonly terminated: Map<string, AdmittedRoute>;
}

/**
 * Settles all claims. The namespace of the oldest route on a host owns the host; a wildcard and an exact host one level below its domain
 * block each other across namespaces; host and path belong to one route; and a host's TLS is either passed through or terminated.
 * @param ownership  false: namespaces may share hosts (`router.disableNamespaceOwnershipCheck`)
 */
export function settleClaims<C extends Claimant>(claimants: readonly C[], ownership: boolean): Claims<C> {
  const ledger: Ledger = { hosts: new Map(), paths: new Map(), below: new Map(), passthrough: new Map(), terminated: new Map() };
  const admitted: C[] = [];
  const refused: { claimant: C; problem: Problem }[] = [];
  for (const claimant of claimants.toSorted(compareAge)) {
    const conflict = (ownership ? ownershipConflict(claimant.route, ledger) : null) ?? sharingConflict(claimant.route, ledger);
    if (conflict === null) {
      enter(claimant.route, ledger);
      admitted.push(claimant);
    } else refused.push({ claimant, problem: { field: 'spec.host', reason: 'HostAlreadyClaimed', message: conflict } });
  }
  return { admitted, refused };
}

/** Older first; of the same age the lower UID, then the name (manifests in files have neither). */
function compareAge(a: Claimant, b: Claimant): number {
  return (
    a.created - b.created ||
    compareText(a.uid, b.uid) ||
    compareText(a.route.namespace, b.route.namespace) ||
    compareText(a.route.name, b.route.name)
  );
}

function ownershipConflict(route: AdmittedRoute, ledger: Ledger): string | null {
  const foreign = (holder: AdmittedRoute | undefined): holder is AdmittedRoute =>
    holder !== undefined && holder.namespace !== route.namespace;
  const owner = ledger.hosts.get(hostKey(route));
  if (foreign(owner)) return `${hostKey(route)} is owned by namespace ${owner.namespace}: its route ${owner.name} is older`;
  if (route.wildcard) {
    for (const covered of ledger.below.get(route.host)?.values() ?? []) {
      if (foreign(covered)) return coverConflict(route, covered);
    }
    return null;
  }
  const wildcard = ledger.hosts.get(`*.${parentDomain(route.host)}`);
  if (!foreign(wildcard)) return null;
  return `${route.host} is covered by ${hostKey(wildcard)}, which is owned by namespace ${wildcard.namespace}: its route ${wildcard.name} is older`;
}

function coverConflict(route: AdmittedRoute, covered: AdmittedRoute): string {
  return `${hostKey(route)} would cover ${covered.host}, which is owned by namespace ${covered.namespace}: its route ${covered.name} is older`;
}

/** What two routes cannot share even within one namespace. */
function sharingConflict(route: AdmittedRoute, ledger: Ledger): string | null {
  const key = hostKey(route);
  const holder = ledger.paths.get(pathKey(route));
  if (holder !== undefined) return `this host and path are served by route ${nameOf(holder)}, which is older`;
  const { passthrough, terminated } = ledger;
  const other = route.termination === 'http' ? undefined : (passthrough.get(key) ?? passthroughClash(route, terminated.get(key)));
  if (other === undefined) return null;
  return `TLS of ${key} is ${other.termination === 'passthrough' ? 'passed through' : 'terminated'} for route ${nameOf(other)}, which is older`;
}

function passthroughClash(route: AdmittedRoute, terminated: AdmittedRoute | undefined): AdmittedRoute | undefined {
  return route.termination === 'passthrough' ? terminated : undefined;
}

function enter(route: AdmittedRoute, ledger: Ledger): void {
  const key = hostKey(route);
  keepOldest(ledger.hosts, key, route);
  keepOldest(ledger.paths, pathKey(route), route);
  if (route.termination !== 'http') keepOldest(route.termination === 'passthrough' ? ledger.passthrough : ledger.terminated, key, route);
  if (route.wildcard) return;
  const domain = parentDomain(route.host);
  const holders = ledger.below.get(domain) ?? new Map<string, AdmittedRoute>();
  keepOldest(holders, route.namespace, route);
  ledger.below.set(domain, holders);
}

function keepOldest(holders: Map<string, AdmittedRoute>, key: string, route: AdmittedRoute): void {
  if (!holders.has(key)) holders.set(key, route);
}

function hostKey(route: AdmittedRoute): string {
  return route.wildcard ? `*.${route.host}` : route.host;
}

/** A path is empty or begins with `/`, which no host holds: the two cannot be confused. */
function pathKey(route: AdmittedRoute): string {
  return hostKey(route) + route.path;
}

function nameOf(route: AdmittedRoute): string {
  return `${route.namespace}/${route.name}`;
}
