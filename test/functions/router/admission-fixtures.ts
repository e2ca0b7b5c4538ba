// Objects for tests of admission, valid but for what a test changes.

import { type Options, type RouterOptions, parseOptions } from '../../../functions/options.ts';
import type { ClusterState, ObjectMeta, Route, RouteTls, Secret, Service } from '../../../functions/cluster/objects.ts';
import { admitRoutes } from '../../../functions/router/admit.ts';
import type { AdmittedRoute } from '../../../functions/router/configuration.ts';

export type RouteChanges = Omit<Partial<Route>, 'meta' | 'tls'> & {
  readonly meta?: Partial<ObjectMeta>;
  readonly tls?: Partial<RouteTls> | null;
};

const NO_TLS_FIELDS: RouteTls = {
  termination: 'edge',
  insecurePolicy: null,
  certificate: null,
  key: null,
  caCertificate: null,
  destinationCACertificate: null,
  externalCertificate: null,
};

export function meta(changes: Partial<ObjectMeta> = {}): ObjectMeta {
  return { namespace: 'shop', name: 'front', uid: '', created: 0, generation: 1, labels: {}, annotations: {}, ...changes };
}

export function route(changes: RouteChanges = {}): Route {
  const { meta: metaChanges, tls, ...fields } = changes;
  return {
    host: 'www.example.com',
    subdomain: null,
    path: null,
    wildcardPolicy: null,
    to: { kind: 'Service', name: 'web', weight: null },
    alternateBackends: [],
    targetPort: null,
    headerActions: [],
    ...fields,
    meta: meta(metaChanges),
    tls: tls === undefined || tls === null ? null : { ...NO_TLS_FIELDS, ...tls },
  };
}

export function service(changes: Omit<Partial<Service>, 'meta'> & { readonly meta?: Partial<ObjectMeta> } = {}): Service {
  const { meta: metaChanges, ...fields } = changes;
  return {
    type: 'ClusterIP',
    clusterIPs: ['172.30.0.10'],
    externalIPs: [],
    loadBalancerIngress: [],
    loadBalancerSourceRanges: [],
    externalTrafficPolicy: 'Cluster',
    internalTrafficPolicy: 'Cluster',
    trafficDistribution: null,
    healthCheckNodePort: 0,
    sessionAffinity: 'None',
    affinityTimeout: 10_800,
    publishNotReadyAddresses: false,
    ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: 0, appProtocol: null }],
    ...fields,
    meta: meta({ name: 'web', ...metaChanges }),
  };
}

export function tlsSecret(name: string, crt: string, key: string, changes: Partial<Secret> = {}): Secret {
  const data = new Map([
    ['tls.crt', Buffer.from(crt)],
    ['tls.key', Buffer.from(key)],
  ]);
  return { namespace: 'shop', name, type: 'kubernetes.io/tls', data, ...changes };
}

export function cluster(changes: Partial<ClusterState> = {}): ClusterState {
  return { routes: [], services: [], nodes: [], namespaces: [], secrets: [], endpoints: new Map(), rejections: [], ...changes };
}

export function routerOptions(changes: Partial<RouterOptions> = {}): RouterOptions {
  const {
    defaultCertificate: _certificate,
    defaultDestinationCA: _authority,
    stats: _stats,
    templates: _templates,
    ...written
  } = parseOptions({}, 'test').router;
  return { ...written, statsUser: null, templates: {}, ...changes };
}

export function options(router: Partial<RouterOptions> = {}, files: Partial<Options['files']> = {}): Options {
  return {
    router: routerOptions(router),
    iptables: parseOptions({}, 'test').iptables,
    files: { defaultCertificate: null, defaultDestinationCA: null, statsPassword: null, ...files },
    withoutEffect: [],
  };
}

/** What admission says of routes, in short: the names admitted, and `name reason field` of each rejection. */
export function outcome(routes: readonly Route[], router: Partial<RouterOptions> = {}, rest: Partial<ClusterState> = {}): Outcome {
  const { configuration } = admitRoutes(cluster({ ...rest, routes }), options(router));
  return {
    admitted: configuration.routes.map(({ namespace, name }) => `${namespace}/${name}`),
    objects: configuration.rejections
      .filter(({ scope }) => scope === 'object')
      .map(({ namespace, name, reason, field }) => `${namespace}/${name} ${reason} ${field}`),
    settings: configuration.rejections.filter(({ scope }) => scope === 'setting').map(({ reason, field }) => `${reason} ${field}`),
    routes: configuration.routes,
  };
}

export interface Outcome {
  readonly admitted: readonly string[];
  readonly objects: readonly string[];
  readonly settings: readonly string[];
  readonly routes: readonly AdmittedRoute[];
}
