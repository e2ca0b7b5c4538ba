// Admission to the router: cluster objects in, configuration out. The steps, in their order:
//
//   selectors   routes that are not this router's are left out, which is no rejection
//   fields      each route by itself: host, path, targets, TLS (validate.ts), certificates, annotations
//   claims      valid routes against each other: who owns a host
//   services    what the admitted routes need to know of the services that they name
//
// A route rejected at one step takes no part in the next.

import { parseAddress } from '../../shared/address.ts';
import { HeadgateError } from '../../shared/error.ts';
import type { Files } from '../../shared/files.ts';
import { compareText } from '../../shared/json.ts';
import { shown, sortRejections } from '../../shared/rejection.ts';
import type { ClusterState, Route, Service } from '../cluster/objects.ts';
import type { Options, RouterOptions } from '../options.ts';
import { isFlaw, parseAuthorities } from './certificates.ts';
import { type Claimant, settleClaims } from './claims.ts';
import type { AdmittedRoute, RoutedService, RouterConfiguration } from './configuration.ts';
import { defaultCertificate } from './default-certificate.ts';
import { type LabelSelector, matchesLabels, parseLabelSelector } from './label-selector.ts';
import { type Problem, isProblem, routeRejection } from './problem.ts';
import { type FindSecret, authorityPath, routeCertificates } from './route-certificates.ts';
import { readSettings } from './settings.ts';
import { validateRoute } from './validate.ts';

export interface RouterAdmission {
  readonly configuration: RouterConfiguration;
  /** `router/certificates/*` and `router/secrets/*` in the clear. */
  readonly secrets: Files;
}

/** A valid route with what goes into the version if its claim stands. */
interface Candidate extends Claimant {
  readonly files: ReadonlyMap<string, string>;
  /** What was left out of it. */
  readonly problems: readonly Problem[];
}

/**
 * Admits what may be served. Pure; the order in which the objects were listed does not matter.
 * @throws HeadgateError stage `options`: `bad-options` for a selector that is none, `bad-default-certificate`,
 *   `bad-default-destination-ca`. What is wrong with an object of the cluster is a rejection.
 */
export function admitRoutes(state: ClusterState, options: Options): RouterAdmission {
  const findSecret = secretFinder(state);
  const judged = selectRoutes(state, options.router).map((route) => ({ route, candidate: judgeRoute(route, options.router, findSecret) }));
  const candidates = judged.flatMap(({ candidate }) => (isProblem(candidate) ? [] : [candidate]));
  const claims = settleClaims(candidates, !options.router.disableNamespaceOwnershipCheck);
  const admitted = claims.admitted.toSorted((a, b) => compareNames(a.route, b.route));
  const served = defaultCertificate(options.files.defaultCertificate, findSecret);
  const authority = defaultAuthority(options.files.defaultDestinationCA);
  const routes = admitted.map(({ route }) => route);
  return {
    configuration: {
      options: options.router,
      defaultCertificate: served.certificate,
      defaultDestinationCA: authority?.path ?? null,
      routes,
      services: routedServices(state.services, routes),
      rejections: sortRejections([
        ...judged.flatMap(({ route, candidate }) => (isProblem(candidate) ? [routeRejection(route.meta, 'object', candidate)] : [])),
        ...claims.refused.map(({ claimant, problem }) => routeRejection(claimant.route, 'object', problem)),
        ...admitted.flatMap(({ route, problems }) => problems.map((problem) => routeRejection(route, 'setting', problem))),
        ...(served.rejection === null ? [] : [served.rejection]),
      ]),
    },
    secrets: secretFiles([
      ...admitted.flatMap(({ files }) => [...files]),
      [served.certificate.path, served.pem],
      ...(authority === null ? [] : [[authority.path, authority.pem] as const]),
      ...(options.files.statsPassword === null ? [] : [['secrets/stats-password', options.files.statsPassword] as const]),
    ]),
  };
}

function secretFinder(state: ClusterState): FindSecret {
  const secrets = new Map(state.secrets.map((secret) => [`${secret.namespace}/${secret.name}`, secret]));
  return (namespace, name) => secrets.get(`${namespace}/${name}`);
}

/** With a selector of namespaces, a namespace that was not listed is not selected. */
function selectRoutes(state: ClusterState, options: RouterOptions): Route[] {
  const ofRoutes = readSelector(options.routeSelector, 'routeSelector');
  const ofNamespaces = readSelector(options.namespaceSelector, 'namespaceSelector');
  const selected = new Set(state.namespaces.filter(({ labels }) => matchesLabels(ofNamespaces, labels)).map(({ name }) => name));
  const inSelected = (route: Route): boolean => ofNamespaces.length === 0 || selected.has(route.meta.namespace);
  return state.routes.filter((route) => inSelected(route) && matchesLabels(ofRoutes, route.meta.labels));
}

function readSelector(text: string, key: string): LabelSelector {
  const selector = parseLabelSelector(text);
  if (selector !== null) return selector;
  const message = `router.${key}: ${shown(text)} is not a label selector, such as a=b,c!=d,e in (x,y)`;
  throw new HeadgateError('bad-options', 'options', message);
}

function judgeRoute(route: Route, options: RouterOptions, findSecret: FindSecret): Candidate | Problem {
  const fields = validateRoute(route, options);
  if (isProblem(fields)) return fields;
  const certificates = routeCertificates(route, fields.termination, findSecret);
  if (isProblem(certificates)) return certificates;
  const { settings, problems } = readSettings(route, fields.termination);
  return {
    route: { ...fields, certificate: certificates.certificate, destinationCA: certificates.destinationCA, settings },
    created: route.meta.created,
    uid: route.meta.uid,
    files: certificates.files,
    problems: [...certificates.ignored, ...problems],
  };
}

function defaultAuthority(text: string | null): { readonly path: string; readonly pem: string } | null {
  if (text === null) return null;
  const pem = parseAuthorities(text);
  if (!isFlaw(pem)) return { path: authorityPath(pem), pem };
  throw new HeadgateError('bad-default-destination-ca', 'options', `router.defaultDestinationCA: ${pem.flaw}`);
}

function routedServices(services: readonly Service[], routes: readonly AdmittedRoute[]): RoutedService[] {
  const named = new Set(routes.flatMap((route) => route.services.map(({ name }) => `${route.namespace}/${name}`)));
  return services
    .filter(({ meta }) => named.has(`${meta.namespace}/${meta.name}`))
    .map(routedService)
    .toSorted(compareNames);
}

/** Routes are TCP only, so are the ports. */
function routedService(service: Service): RoutedService {
  const { namespace, name, annotations } = service.meta;
  const idled = annotations['idling.alpha.openshift.io/idled-at'] !== undefined;
  return {
    namespace,
    name,
    idledClusterIP: idled ? (parseAddress(service.clusterIPs[0] ?? '')?.text ?? null) : null,
    ports: service.ports
      .filter(({ protocol }) => protocol === 'TCP')
      .map((port) => ({ name: port.name, port: port.port, targetPort: port.targetPort, appProtocol: port.appProtocol })),
  };
}

/** Routes may share a CA: one file. */
function secretFiles(entries: readonly (readonly [path: string, text: string])[]): Map<string, string> {
  return new Map(entries.map(([path, text]) => [`router/${path}`, text] as const).toSorted(([a], [b]) => compareText(a, b)));
}

interface Named {
  readonly namespace: string;
  readonly name: string;
}

function compareNames(a: Named, b: Named): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}
