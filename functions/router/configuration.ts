// Router configuration: what the admitted routes ask for, judged and typed, without anything about endpoints. This is
// what a version stores of the router (`configuration/router/<xx>`), so that it can be rendered again with other endpoints.
// It holds no secret: certificates and passwords are named by their path in the version. All of it is plain JSON.

import type { Rejection } from '../../shared/rejection.ts';
import { canonicalJson } from '../../shared/json.ts';
import { shardEntries } from '../../shared/shard.ts';
import type { RouterOptions } from '../options.ts';

export type Termination = 'http' | 'edge' | 'reencrypt' | 'passthrough';
/** What plain HTTP gets: nothing, the route, a redirect to https. An http route has `allow`. */
export type InsecurePolicy = 'none' | 'allow' | 'redirect';
export type Balance = 'roundrobin' | 'leastconn' | 'source' | 'random';
export type ForwardedHeaders = 'append' | 'replace' | 'if-none' | 'never';

export interface RateLimit {
  /** Connections open at once from one address; null: no limit. Likewise below. */
  readonly concurrentTcp: number | null;
  /** Connections in 3 s from one address. */
  readonly rateTcp: number | null;
  /** HTTP requests in 10 s from one address. */
  readonly rateHttp: number | null;
}

export type HeaderEdit =
  | { readonly direction: 'request' | 'response'; readonly name: string; readonly action: 'delete' }
  /** `value` is the checked source text: literal but for `%%` and the allowed `%[...]`. */
  | { readonly direction: 'request' | 'response'; readonly name: string; readonly action: 'set'; readonly value: string };

/** What annotations and spec.httpHeaders ask for, parsed. null: not given, the router's default holds. Durations in ms. */
export interface RouteSettings {
  readonly balance: Balance | null;
  /** Canonical addresses and CIDRs; empty: nobody (an allow-list fails closed); null: everybody. */
  readonly allowList: readonly string[] | null;
  readonly timeoutServer: number | null;
  readonly timeoutTunnel: number | null;
  readonly rateLimit: RateLimit | null;
  readonly podConcurrentConnections: number | null;
  readonly forwardedHeaders: ForwardedHeaders | null;
  readonly rewriteTarget: string | null;
  readonly disableCookies: boolean;
  readonly cookieName: string | null;
  readonly cookieSameSite: 'Lax' | 'Strict' | 'None' | null;
  /** The header's whole value, checked. */
  readonly hsts: string | null;
  readonly h1AdjustCase: boolean;
  readonly healthCheckInterval: number | null;
  readonly headerEdits: readonly HeaderEdit[];
}

export interface RouteService {
  readonly name: string;
  /** 0..256, each service once. */
  readonly weight: number;
}

export interface RouteCertificate {
  /** Path in the version, relative to `router/`: `certificates/<namespace>:<name>.pem`. */
  readonly path: string;
  /** sha256 of the leaf certificate's DER: tells which routes share one. Says nothing of the key. */
  readonly fingerprint: string;
}

/** A route that is served. */
export interface AdmittedRoute {
  readonly namespace: string;
  readonly name: string;
  readonly termination: Termination;
  readonly insecure: InsecurePolicy;
  /** Lowercase, without the wildcard's first label when `wildcard` (then `example.com` stands for `*.example.com`). */
  readonly host: string;
  /** As the route wrote it (`spec.host` or made of its subdomain), for people. */
  readonly displayHost: string;
  /** Empty for none; never `/`. */
  readonly path: string;
  readonly wildcard: boolean;
  readonly services: readonly RouteService[];
  readonly targetPort: string | number | null;
  readonly certificate: RouteCertificate | null;
  /** Path of the CA that verifies the pods of a reencrypt route, relative to `router/`: `certificates/ca-<digest>.pem`; null: the default one. */
  readonly destinationCA: string | null;
  readonly settings: RouteSettings;
}

/** What a route needs to know of a service besides its endpoints. */
export interface RoutedService {
  readonly namespace: string;
  readonly name: string;
  /** Set for an idled service (annotation `idling.alpha.openshift.io/idled-at`): its cluster IP stands in while it has no endpoints. */
  readonly idledClusterIP: string | null;
  readonly ports: readonly {
    readonly name: string;
    readonly port: number;
    readonly targetPort: string | number | null;
    readonly appProtocol: string | null;
  }[];
}

export interface RouterConfiguration {
  /** The options that the output depends on; nothing in it is a secret or a path of this machine. */
  readonly options: RouterOptions;
  /** Always there: the given one, a Secret's, or a self-signed one of ours. */
  readonly defaultCertificate: RouteCertificate;
  /** Path relative to `router/`; null: none given. */
  readonly defaultDestinationCA: string | null;
  /** Sorted by namespace and name. */
  readonly routes: readonly AdmittedRoute[];
  /** Those that a route names, sorted; a service that does not exist is absent. */
  readonly services: readonly RoutedService[];
  /** What admission left out, sorted. */
  readonly rejections: readonly Rejection[];
}

/** The configuration as files of a version: `configuration/router/...`. */
export function routerConfigurationFiles(configuration: RouterConfiguration): Map<string, string> {
  const { routes, services, rejections, ...base } = configuration;
  return new Map([
    ['configuration/router/base', `${canonicalJson(base)}\n`],
    ...shardEntries('configuration/router/routes', routes, (route) => `${route.namespace}/${route.name}`),
    ...shardEntries('configuration/router/services', services, (service) => `${service.namespace}/${service.name}`),
    ...shardEntries('configuration/router/rejections', rejections, (rejection) => `${rejection.namespace}/${rejection.name}`),
  ]);
}
