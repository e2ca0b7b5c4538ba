// From a router configuration and the endpoints of now to router state. Pure: what a route asks for was judged by
// admission; here it is put together.

import type { Endpoints } from '../../shared/endpoint.ts';
import { parseAddress } from '../../shared/address.ts';
import { type Rejection, sortRejections } from '../../shared/rejection.ts';
import type { RouterOptions } from '../options.ts';
import { backendName, routeBackend } from './backend.ts';
import type { AdmittedRoute, RouterConfiguration } from './configuration.ts';
import { crtListEntries, hostCertificates } from './crt-list.ts';
import { canBeLookedUp, mapEntries } from './lookups.ts';
import { lookUpServices, type RouteServers, routeServers } from './servers.ts';
import type { Base, Bind, RouterState, RouteSummary } from './state.ts';

/** What HAProxy should do for this configuration with these endpoints. The same input gives the same state. */
export function buildRouter(configuration: RouterConfiguration, endpoints: Endpoints): RouterState {
  const { options } = configuration;
  const { lookup, rejections } = lookUpServices(configuration, endpoints);
  const routes = configuration.routes.filter(canBeLookedUp);
  const refused = configuration.routes.filter((route) => !canBeLookedUp(route)).map(cannotBeLookedUp);
  const served = routes.map((route) => ({ route, ...routeServers(route, configuration, lookup) }));
  const certificates = hostCertificates(configuration, routes);
  return {
    base: base(options, configuration.defaultCertificate.path),
    maps: mapEntries(routes, certificates),
    backends: served.map(({ route, servers }) => ({ ...routeBackend(route, options), servers })),
    crtList: crtListEntries(certificates, !options.disableHttp2),
    routes: served.map(({ route, services }) => summary(route, services)),
    rejections: sortRejections([...rejections, ...refused]),
  };
}

/** For checked servers, sockets and files besides connections; a fixed number, so that routes do not show in the base. */
const SPARE_DESCRIPTORS = 150_000;

function base(options: RouterOptions, defaultCertificate: string): Base {
  return {
    options,
    descriptors: 2 * options.maxConnections + SPARE_DESCRIPTORS,
    http: bind(options.bindAddress, options.httpPort),
    https: bind(options.bindAddress, options.httpsPort),
    stats: bind(options.statsUser === null ? '127.0.0.1' : options.bindAddress, options.statsPort),
    defaultCertificate,
  };
}

function bind(text: string, port: number): Bind {
  const address = parseAddress(text);
  if (address === null) return { address: null, port };
  return { address: address.family === 'IPv6' ? `[${address.text}]` : address.text, port };
}

function cannotBeLookedUp(route: AdmittedRoute): Rejection {
  return {
    kind: 'Route',
    namespace: route.namespace,
    name: route.name,
    scope: 'object',
    field: 'spec.path',
    reason: 'InvalidPath',
    message: 'host and path are longer than 8192 bytes, or hold white space, a control character or a question mark',
  };
}

function summary(route: AdmittedRoute, services: RouteServers['services']): RouteSummary {
  const { namespace, name, path, wildcard, termination } = route;
  return { namespace, name, kind: 'Route', host: route.displayHost, path, wildcard, termination, backend: backendName(route), services };
}
