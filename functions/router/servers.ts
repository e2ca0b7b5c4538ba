// The servers of a backend: the endpoints of a route's services that are worth sending traffic to, each address and port
// once, named and weighted.

import { parseAddress, specialUse } from '../../shared/address.ts';
import { digestOf } from '../../shared/digest.ts';
import type { Endpoint, EndpointPort, Endpoints, EndpointSubset } from '../../shared/endpoint.ts';
import { compareText } from '../../shared/json.ts';
import type { Rejection } from '../../shared/rejection.ts';
import type { Server, ServerTls } from '../../shared/router/state.ts';
import type { AdmittedRoute, RoutedService, RouterConfiguration } from './configuration.ts';
import type { ServiceSummary } from './state.ts';
import { serverWeights } from './weights.ts';

export interface RouteServers {
  /** Sorted by name. */
  readonly servers: readonly Server[];
  readonly services: readonly ServiceSummary[];
}

/** Where traffic can go: an address and a port of a service. */
interface Target {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly http2: boolean;
  /** The service is idled and this is its cluster IP: asking for its health would wake it. */
  readonly idled: boolean;
}

/** The services of a configuration and what is behind them, looked up by `namespace/name`. */
export interface ServiceLookup {
  readonly services: ReadonlyMap<string, RoutedService>;
  /** Addresses that no pod can have are left out already. */
  readonly endpoints: Endpoints;
  readonly allowLoopback: boolean;
}

/** Looks the services up; reports, once for each service, the addresses that must not be sent traffic to. */
export function lookUpServices(
  configuration: RouterConfiguration,
  endpoints: Endpoints,
): { readonly lookup: ServiceLookup; readonly rejections: readonly Rejection[] } {
  const allowLoopback = configuration.options.allowLoopbackEndpoints;
  const usable = new Map(endpoints);
  const rejections: Rejection[] = [];
  for (const service of configuration.services) {
    const key = `${service.namespace}/${service.name}`;
    const found = endpoints.get(key);
    if (found === undefined) continue;
    const dropped = new Set<string>();
    const subsets = found.subsets.map((subset) => ({
      ...subset,
      endpoints: subset.endpoints.filter(({ address }) => {
        const allowed = isPodAddress(address, allowLoopback);
        if (!allowed) dropped.add(address);
        return allowed;
      }),
    }));
    if (dropped.size === 0) continue;
    usable.set(key, { ...found, subsets });
    rejections.push(addressesDropped(service, [...dropped].sort(compareText)));
  }
  const services = new Map(configuration.services.map((service) => [`${service.namespace}/${service.name}`, service]));
  return { lookup: { services, endpoints: usable, allowLoopback }, rejections };
}

/** The servers of a route's backend. */
export function routeServers(route: AdmittedRoute, configuration: RouterConfiguration, lookup: ServiceLookup): RouteServers {
  const targets = distinctTargets(route, lookup);
  const weights = serverWeights(route.services.map(({ name, weight }) => ({ weight, endpoints: targets.get(name)?.length ?? 0 })));
  const active = route.services.reduce((count, { name, weight }) => count + (weight > 0 ? (targets.get(name)?.length ?? 0) : 0), 0);
  const interval = active > 1 ? (route.settings.healthCheckInterval ?? configuration.options.healthCheckInterval) : null;
  const servers = route.services.flatMap(({ name }, index) =>
    (targets.get(name) ?? []).map((target) => ({
      name: target.name,
      address: target.address,
      port: target.port,
      weight: weights[index] ?? 0,
      checkInterval: target.idled ? null : interval,
      maxConnections: route.settings.podConcurrentConnections,
      http2: route.termination === 'reencrypt' ? !configuration.options.disableHttp2 : target.http2,
      tls: serverTls(route, name, configuration),
    })),
  );
  return {
    servers: withIds(servers.sort((a, b) => compareText(a.name, b.name))),
    services: route.services.map(({ name, weight }, index) => ({
      name,
      weight,
      endpoints: targets.get(name)?.length ?? 0,
      serverWeight: weights[index] ?? 0,
    })),
  };
}

/** An endpoint that claims a node's own or the cloud's addresses would have the router send traffic where no pod is. */
function isPodAddress(text: string, allowLoopback: boolean): boolean {
  const address = parseAddress(text);
  if (address === null) return false;
  const use = specialUse(address);
  return use === null || (use === 'loopback' && allowLoopback);
}

function addressesDropped(service: RoutedService, addresses: readonly string[]): Rejection {
  const listed = addresses.slice(0, 5).join(', ');
  const more = addresses.length > 5 ? ` and ${addresses.length - 5} more` : '';
  return {
    kind: 'Service',
    namespace: service.namespace,
    name: service.name,
    scope: 'setting',
    field: 'endpoints',
    reason: 'EndpointAddressNotAllowed',
    message: `no traffic is sent to ${listed}${more}: not an address of a pod (loopback, link-local, multicast, unspecified or cloud metadata)`,
  };
}

/** Targets by service; an address and port that two services share belongs to the first one with a weight above 0. */
function distinctTargets(route: AdmittedRoute, lookup: ServiceLookup): ReadonlyMap<string, readonly Target[]> {
  const taken = new Set<string>();
  const byWeight = [...route.services.filter(({ weight }) => weight > 0), ...route.services.filter(({ weight }) => weight <= 0)];
  return new Map(
    byWeight.map(({ name }) => {
      const service = lookup.services.get(`${route.namespace}/${name}`);
      const all = service === undefined ? [] : serviceTargets(service, route, lookup);
      const own = all.filter(({ address, port }) => {
        const key = `${address} ${port}`;
        if (taken.has(key)) return false;
        taken.add(key);
        return true;
      });
      return [name, own];
    }),
  );
}

/** Ready endpoints; those that still serve while they terminate only when none is ready. */
function serviceTargets(service: RoutedService, route: AdmittedRoute, lookup: ServiceLookup): Target[] {
  const subsets = lookup.endpoints.get(`${service.namespace}/${service.name}`)?.subsets ?? [];
  const select = (wanted: (endpoint: Endpoint) => boolean): Target[] =>
    subsets.flatMap((subset) => subsetTargets(subset, service, route, wanted));
  const ready = select((endpoint) => endpoint.ready);
  if (ready.length > 0) return ready;
  const terminating = select((endpoint) => endpoint.serving && endpoint.terminating);
  if (terminating.length > 0) return terminating;
  const clusterIP = service.idledClusterIP;
  const idled = clusterIP !== null && subsets.every((subset) => subset.endpoints.length === 0);
  return idled && isPodAddress(clusterIP, lookup.allowLoopback) ? idledTargets(service, clusterIP, route) : [];
}

function subsetTargets(
  subset: EndpointSubset,
  service: RoutedService,
  route: AdmittedRoute,
  wanted: (endpoint: Endpoint) => boolean,
): Target[] {
  const ports = subset.ports.filter((port) => port.protocol === 'TCP' && isTargetPort(port, route.targetPort));
  return subset.endpoints.filter(wanted).flatMap((endpoint) =>
    ports.map((port) => ({
      name: serverName(endpoint.pod, service.name, port.name, endpoint.address, port.port),
      address: endpoint.address,
      port: port.port,
      http2: speaksHttp2(port.appProtocol ?? appProtocolOf(service, port.name)),
      idled: false,
    })),
  );
}

/** A route names an endpoint's port by its name or its number; one that names none takes them all. */
function isTargetPort(port: EndpointPort, targetPort: string | number | null): boolean {
  return targetPort === null || String(targetPort) === port.name || String(targetPort) === String(port.port);
}

function appProtocolOf(service: RoutedService, portName: string): string | null {
  return service.ports.find(({ name }) => name === portName)?.appProtocol ?? null;
}

function speaksHttp2(appProtocol: string | null): boolean {
  return appProtocol === 'h2c' || appProtocol === 'kubernetes.io/h2c';
}

/** What stands behind the cluster IP wakes the service up. */
function idledTargets(service: RoutedService, clusterIP: string, route: AdmittedRoute): Target[] {
  const wanted = route.targetPort === null ? null : String(route.targetPort);
  return service.ports
    .filter((port) => wanted === null || [port.name, String(port.port), String(port.targetPort)].includes(wanted))
    .map((port) => ({
      name: serverName(null, service.name, port.name, clusterIP, port.port),
      address: clusterIP,
      port: port.port,
      http2: speaksHttp2(port.appProtocol),
      idled: true,
    }));
}

/** The address and port at the end keep names apart, and make a state file harmless that was saved under another address. */
function serverName(pod: string | null, service: string, port: string, address: string, number: number): string {
  const parts = [service, port, address, String(number)];
  if (pod === null) return ['ept', ...parts.slice(0, 2).map(nameable), ...parts.slice(2)].join(':');
  return ['pod', nameable(pod), ...parts.slice(0, 2).map(nameable), ...parts.slice(2)].join(':');
}

/** A part of a server's name: only what HAProxy takes in names, without the colon that separates the parts. */
function nameable(part: string): string {
  return part.slice(0, 253).replaceAll(/[^A-Za-z0-9_.-]/g, '_');
}

function serverTls(route: AdmittedRoute, service: string, configuration: RouterConfiguration): ServerTls | null {
  if (route.termination !== 'reencrypt') return null;
  if (route.destinationCA !== null) return { caFile: route.destinationCA, verifyHost: null };
  const caFile = configuration.defaultDestinationCA;
  return { caFile, verifyHost: caFile === null ? null : `${service}.${route.namespace}.svc` };
}

/** Ids 1..2^31-1 from the names, so that a server keeps its place on the hash ring; taken ones move to the next free. */
function withIds(servers: readonly Omit<Server, 'id'>[]): Server[] {
  const taken = new Set<number>();
  return servers.map((server) => {
    let id = Math.max(1, Number.parseInt(digestOf(server.name).slice(0, 8), 16) & HIGHEST_ID);
    while (taken.has(id)) id = id === HIGHEST_ID ? 1 : id + 1;
    taken.add(id);
    return { ...server, id };
  });
}

const HIGHEST_ID = 0x7fff_ffff;
