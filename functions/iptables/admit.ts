// Admission of services: which of them are ours to serve, at which addresses, and what is wrong with the rest. A bad value
// is left out alone and reported; it never blocks what is good in the same service.

import { compareText } from '../../shared/json.ts';
import type { TrafficPolicy } from '../../shared/iptables/service.ts';
import { type Rejection, sortRejections } from '../../shared/rejection.ts';
import type { ClusterState, Service, ServicePort } from '../cluster/objects.ts';
import type { IptablesOptions } from '../options.ts';
import { type Claimant, settleClaims } from './claims.ts';
import type { ProxyConfiguration } from './configuration.ts';
import { quoted, type Report, serviceReport } from './report.ts';
import { readAddresses } from './service-addresses.ts';

/** Seconds, as the API's validation has it. */
const AFFINITY = { fallback: 10_800, longest: 86_400 } as const;

const PROXY_NAME_LABEL = 'service.kubernetes.io/service-proxy-name';

/** Judges the cluster's services. Not ours, and no rejection: headless and ExternalName services, and those that name another proxy. */
export function admitServices(state: ClusterState, options: IptablesOptions): ProxyConfiguration {
  const rejections: Rejection[] = [];
  const claimants = state.services.filter(isOurs).map((service) => readService(service, serviceReport(service.meta, rejections)));
  const services = settleClaims(claimants, rejections).filter(({ ports }) => ports.length > 0);
  return { services: services.sort(byName), options, rejections: sortRejections(rejections) };
}

function isOurs(service: Service): boolean {
  const headless = service.clusterIPs.every((address) => address === '' || address === 'None');
  return service.type !== 'ExternalName' && !headless && !Object.hasOwn(service.meta.labels, PROXY_NAME_LABEL);
}

function byName(a: { readonly namespace: string; readonly name: string }, b: typeof a): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}

function readService(service: Service, report: Report): Claimant {
  const { addresses, families, sourceRanges } = readAddresses(service, report);
  const externalPolicy = readPolicy(service.externalTrafficPolicy, 'spec.externalTrafficPolicy', report);
  return {
    created: service.meta.created,
    addresses,
    ports: readPorts(service.ports, report),
    service: {
      namespace: service.meta.namespace,
      name: service.meta.name,
      families,
      internalPolicy: readPolicy(service.internalTrafficPolicy, 'spec.internalTrafficPolicy', report),
      externalPolicy,
      affinitySeconds: readAffinity(service, report),
      sourceRanges,
      healthCheckNodePort: service.type === 'LoadBalancer' && externalPolicy === 'Local' ? readHealthCheckPort(service, report) : 0,
    },
  };
}

function readPolicy(policy: string, field: string, report: Report): TrafficPolicy {
  if (policy !== 'Local' && policy !== 'Cluster' && policy !== '') {
    report(field, 'InvalidTrafficPolicy', `${quoted(policy)} is neither Cluster nor Local; Cluster holds`);
  }
  return policy === 'Local' ? 'Local' : 'Cluster';
}

function readAffinity(service: Service, report: Report): number | null {
  const { sessionAffinity: affinity, affinityTimeout: seconds } = service;
  if (affinity !== 'ClientIP') {
    if (affinity !== 'None' && affinity !== '') {
      report('spec.sessionAffinity', 'InvalidAffinity', `${quoted(affinity)} is neither None nor ClientIP; None holds`);
    }
    return null;
  }
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= AFFINITY.longest) return seconds;
  const field = 'spec.sessionAffinityConfig.clientIP.timeoutSeconds';
  report(field, 'InvalidAffinity', `${seconds} is not 1 to ${AFFINITY.longest} seconds; ${AFFINITY.fallback} hold`);
  return AFFINITY.fallback;
}

function readHealthCheckPort(service: Service, report: Report): number {
  const port = service.healthCheckNodePort;
  if (port === 0 || isPort(port)) return port;
  report('spec.healthCheckNodePort', 'InvalidPort', `${port} is no port`);
  return 0;
}

/** Ports in the order of their names, each name once: chains and endpoints know a port by it. */
function readPorts(ports: readonly ServicePort[], report: Report): ServicePort[] {
  const seen = new Map<string, ServicePort>();
  for (const port of ports) {
    const wrong = [port.port, ...(port.nodePort === 0 ? [] : [port.nodePort])].find((number) => !isPort(number));
    if (wrong !== undefined) report('spec.ports', 'InvalidPort', `${wrong} of the port ${quoted(port.name)} is no port`);
    else if (seen.has(port.name))
      report('spec.ports', 'DuplicatePort', `the name ${quoted(port.name)} is given to several ports; the first has it`);
    else seen.set(port.name, port);
  }
  return [...seen.values()].sort((a, b) => compareText(a.name, b.name));
}

function isPort(number: number): boolean {
  return Number.isInteger(number) && number >= 1 && number <= 65_535;
}
