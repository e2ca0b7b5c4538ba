// Router state: what a configuration and its endpoints mean for HAProxy. Typed values, no text of a configuration: the
// templates print them and decide nothing.

import type { Rejection } from '../../shared/rejection.ts';
import type { Server } from '../../shared/router/state.ts';
import type { RouterOptions } from '../options.ts';
import type { Balance, HeaderEdit, RateLimit, Termination } from './configuration.ts';

/** The sections that belong to no route: global, defaults, stats and the frontends. */
export interface Base {
  readonly options: RouterOptions;
  /** Descriptors for both ends of every connection, with room for checked servers, whose number must not show here. */
  readonly descriptors: number;
  readonly http: Bind;
  readonly https: Bind;
  readonly stats: Bind;
  /** Path relative to `router/`. */
  readonly defaultCertificate: string;
}

/** Where a frontend listens. */
export interface Bind {
  /** IPv6 in brackets; null: every address of the node. */
  readonly address: string | null;
  readonly port: number;
}

/** A map's file is `maps/<name>.map`: `http` and `https` find backends by host and path, `sni` by host, `certificate` names the certificate of a host. */
export type MapName = 'http' | 'https' | 'sni' | 'certificate';

export interface MapEntry {
  readonly key: string;
  readonly value: string;
}

export interface Backend {
  readonly name: string;
  readonly mode: 'http' | 'tcp';
  readonly balance: Balance;
  /** null: the default holds. */
  readonly serverTimeout: number | null;
  readonly tunnelTimeout: number | null;
  /** null: everybody. */
  readonly allowList: AllowList | null;
  readonly rateLimit: RateLimit | null;
  readonly forwarded: Forwarded | null;
  readonly rewrite: Rewrite | null;
  readonly cookie: Cookie | null;
  /** Value of Strict-Transport-Security, sent over TLS only. */
  readonly hsts: string | null;
  readonly headerEdits: readonly HeaderEdit[];
  /** Names of well-known headers reach HTTP/1 servers as `Content-Type`, not `content-type`. */
  readonly adjustCase: boolean;
  readonly servers: readonly Server[];
}

export interface AllowList {
  /** Addresses and CIDRs in rows that fit a line of configuration; no row: nobody. */
  readonly rows: readonly (readonly string[])[];
}

/** How `X-Forwarded-*` and `Forwarded` are written. */
export interface Forwarded {
  readonly action: 'add-header' | 'set-header';
  readonly onlyWhenMissing: boolean;
}

export interface Rewrite {
  /** What stands in place of the route's path. */
  readonly target: string;
  /** Bytes of the route's path. */
  readonly cut: number;
  /** One byte more, for a `/` that the target ends with already; null: keep it. */
  readonly cutSlash: number | null;
}

export interface Cookie {
  readonly name: string;
  readonly secure: boolean;
  readonly sameSite: 'Lax' | 'Strict' | 'None' | null;
  /** Not secret: cookies only name servers. The same for as long as the backend has its name. */
  readonly key: string;
}

export interface CrtListEntry {
  /** Path relative to `router/`. */
  readonly certificate: string;
  readonly alpn: readonly string[];
  /** `*.example.com` for every host one label below. */
  readonly host: string;
}

/** A route for people: an entry of routes.json. */
export interface RouteSummary {
  readonly namespace: string;
  readonly name: string;
  readonly kind: 'Route';
  readonly host: string;
  readonly path: string;
  readonly wildcard: boolean;
  readonly termination: Termination;
  readonly backend: string;
  readonly services: readonly ServiceSummary[];
}

export interface ServiceSummary {
  readonly name: string;
  readonly weight: number;
  /** Those in use. */
  readonly endpoints: number;
  /** The weight of each of its servers. */
  readonly serverWeight: number;
}

export interface RouterState {
  readonly base: Base;
  readonly maps: Readonly<Record<MapName, readonly MapEntry[]>>;
  /** In the order of the routes. */
  readonly backends: readonly Backend[];
  readonly crtList: readonly CrtListEntry[];
  readonly routes: readonly RouteSummary[];
  /** What could not be served of it, besides what admission left out. */
  readonly rejections: readonly Rejection[];
}
