// Compute, as a whole: cluster state and options in, the files of a version out. Pure: no I/O, clock, randomness or
// environment, so the same state gives the same bytes.
//
//   admit     objects -> configuration (what may be served, and what was rejected), certificates
//   compute   configuration + endpoints -> files
//
// The two are apart so that a version's configuration can be computed again with other endpoints.

import type { Endpoints } from '../shared/endpoint.ts';
import type { Files } from '../shared/files.ts';
import type { Summary } from '../shared/manifest.ts';
import { type Rejection, sortRejections } from '../shared/rejection.ts';
import { shardEntries } from '../shared/shard.ts';
import type { ClusterNode, ClusterState } from './cluster/objects.ts';
import { admitServices } from './iptables/admit.ts';
import { buildProxy } from './iptables/build.ts';
import { type ProxyConfiguration, proxyConfigurationFiles } from './iptables/configuration.ts';
import { renderProxy } from './iptables/render.ts';
import type { Options } from './options.ts';
import { admitRoutes } from './router/admit.ts';
import { buildRouter } from './router/build.ts';
import { type RouterConfiguration, routerConfigurationFiles } from './router/configuration.ts';
import { renderRouter } from './router/render.ts';

/** What a cluster asks for, judged; each role's part can come from another version. Plain data without secrets. */
export interface Configuration {
  readonly router: RouterConfiguration;
  readonly proxy: ProxyConfiguration;
}

export interface Admission {
  readonly configuration: Configuration;
  /** `router/certificates/*` and `router/secrets/*` in the clear: sealed before they are stored. */
  readonly secrets: Files;
}

export interface Computed {
  /** Everything that the version holds but the admission's secrets. */
  readonly files: Files;
  readonly rejections: readonly Rejection[];
  readonly summary: Summary;
}

/** Judges the cluster's objects. What is wrong with one of them is a rejection in its role's configuration, never an error. */
export function admit(state: ClusterState, options: Options): Admission {
  const router = admitRoutes(state, options);
  const proxy = admitServices(state, options.iptables);
  const ofRouter = state.rejections.filter(({ kind }) => ROUTER_KINDS.has(kind));
  const ofProxy = state.rejections.filter(({ kind }) => !ROUTER_KINDS.has(kind));
  return {
    configuration: {
      router: { ...router.configuration, rejections: sortRejections([...router.configuration.rejections, ...ofRouter]) },
      proxy: { ...proxy, rejections: sortRejections([...proxy.rejections, ...ofProxy]) },
    },
    secrets: router.secrets,
  };
}

/** Objects of these kinds that could not be read are the router's loss; the others the service proxy's. */
const ROUTER_KINDS: ReadonlySet<string> = new Set(['Route', 'Ingress', 'Secret', 'Namespace']);

/** The files of the version that runs this configuration with these endpoints. */
export function compute(configuration: Configuration, endpoints: Endpoints, nodes: readonly ClusterNode[]): Computed {
  const router = buildRouter(configuration.router, endpoints);
  const proxy = buildProxy(configuration.proxy, endpoints, nodes, configuration.router.options.allowLoopbackEndpoints);
  const rejections = sortRejections([
    ...configuration.router.rejections,
    ...configuration.proxy.rejections,
    ...router.rejections,
    ...proxy.rejections,
  ]);
  const files = new Map([
    ...renderRouter(router),
    ...renderProxy(proxy),
    ...routerConfigurationFiles(configuration.router),
    ...proxyConfigurationFiles(configuration.proxy),
    ...shardEntries('endpoints/services', endpoints.values(), (service) => `${service.namespace}/${service.name}`),
    ...shardEntries('endpoints/nodes', nodes, (node) => node.name),
    ...shardEntries('rejections', rejections, (rejection) => `${rejection.kind}/${rejection.namespace}/${rejection.name}`),
  ]);
  const servers = router.backends.reduce((count, backend) => count + backend.servers.length, 0);
  return {
    files,
    rejections,
    summary: {
      routes: configuration.router.routes.length,
      services: configuration.proxy.services.length,
      servers,
      rejections: rejections.length,
    },
  };
}
