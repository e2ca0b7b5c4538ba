// Builds what nodes need of the service proxy: the admitted services with their endpoints, the nodes, and the options
// that hold for all of them. The rules of one node are composed from it there (shared/iptables/compose.ts).

import { type Cidr, parseAddress, parseCidr, specialUse } from '../../shared/address.ts';
import type { Endpoint, EndpointPort, EndpointSubset, Endpoints } from '../../shared/endpoint.ts';
import { canonicalJson, compareText } from '../../shared/json.ts';
import type { ProxyEndpoint, ProxyNode, ProxyOptions, ProxyService } from '../../shared/iptables/service.ts';
import { type Rejection, sortRejections } from '../../shared/rejection.ts';
import type { ClusterNode } from '../cluster/objects.ts';
import type { IptablesOptions } from '../options.ts';
import type { AdmittedService, ProxyConfiguration } from './configuration.ts';
import { coveringCidrs } from './pod-cidrs.ts';
import { quoted, type Report, serviceReport, settingReport } from './report.ts';

export interface ProxyModel {
  readonly options: ProxyOptions;
  /** Sorted by namespace and name. */
  readonly services: readonly ProxyService[];
  /** Sorted by name. */
  readonly nodes: readonly ProxyNode[];
  /** What is wrong with endpoints and nodes. */
  readonly rejections: readonly Rejection[];
}

/** Above so many endpoints, counted once for each port that they serve, comments stay on dispatch rules only. */
const LARGE_CLUSTER = 1_000;

const ZONE_LABEL = 'topology.kubernetes.io/zone';

/**
 * Joins the configuration with the present endpoints and nodes.
 * @param loopbackExpected  pods on loopback addresses are what the operator wants (`router.allowLoopbackEndpoints`): no rule leads
 *   there either, but nothing is said of it
 */
export function buildProxy(
  configuration: ProxyConfiguration,
  endpoints: Endpoints,
  nodes: readonly ClusterNode[],
  loopbackExpected = false,
): ProxyModel {
  const rejections: Rejection[] = [];
  const services = configuration.services.map((service) => {
    const report = serviceReport(service, rejections);
    const subsets = endpoints.get(`${service.namespace}/${service.name}`)?.subsets ?? [];
    return { ...service, endpoints: serviceEndpoints(service, subsets, loopbackExpected, report) };
  });
  const sorted = [...nodes].sort((a, b) => compareText(a.name, b.name));
  return {
    options: proxyOptions(configuration.options, sorted, services, rejections),
    services,
    nodes: sorted.map((node) => proxyNode(node, settingReport('Node', { namespace: '', name: node.name }, rejections))),
    rejections: sortRejections(rejections),
  };
}

/** Those that can serve, in one order, each once: independent of slices. */
function serviceEndpoints(
  service: AdmittedService,
  subsets: readonly EndpointSubset[],
  loopbackExpected: boolean,
  report: Report,
): ProxyEndpoint[] {
  const found = new Map<string, ProxyEndpoint>();
  const refused = new Set<string>();
  for (const subset of subsets) {
    if (!service.families.includes(subset.family)) continue;
    const ports = targetPorts(service, subset.ports);
    if (Object.keys(ports).length === 0) continue;
    for (const endpoint of subset.endpoints) {
      if (!canServe(endpoint)) continue;
      const address = podAddress(endpoint.address, subset);
      if (address === null) {
        if (!loopbackExpected || !isLoopback(endpoint.address)) refused.add(endpoint.address);
        continue;
      }
      const entry = proxyEndpoint(endpoint, address, ports);
      found.set(canonicalJson(entry), entry);
    }
  }
  if (refused.size > 0) report('endpoints', 'EndpointAddressNotAllowed', refusal([...refused].sort(compareText)));
  return [...found].sort(([a], [b]) => compareText(a, b)).map(([, entry]) => entry);
}

/** The target of each of the service's ports that these endpoints have: same name, same protocol. */
function targetPorts(service: AdmittedService, ports: readonly EndpointPort[]): Record<string, number> {
  const targets: Record<string, number> = {};
  for (const { name, protocol } of service.ports) {
    const target = ports.find((candidate) => candidate.name === name && candidate.protocol === protocol);
    if (target !== undefined && target.port >= 1 && target.port <= 65_535) targets[name] = target.port;
  }
  return targets;
}

function canServe({ ready, serving, terminating }: Endpoint): boolean {
  return ready || (serving && terminating);
}

function podAddress(text: string, { family }: EndpointSubset): string | null {
  const address = parseAddress(text);
  return address?.family === family && specialUse(address) === null ? address.text : null;
}

function isLoopback(text: string): boolean {
  const address = parseAddress(text);
  return address !== null && specialUse(address) === 'loopback';
}

function refusal(addresses: readonly string[]): string {
  const listed = addresses.slice(0, 5).map(quoted).join(', ');
  const more = addresses.length > 5 ? ` and ${addresses.length - 5} more` : '';
  return `no rule leads to ${listed}${more}: not an address of a pod (malformed, loopback, link-local, multicast, unspecified or cloud metadata)`;
}

function proxyEndpoint(endpoint: Endpoint, address: string, ports: Record<string, number>): ProxyEndpoint {
  const { ready, node, hintZones, hintNodes } = endpoint;
  return { address, ports, ready, node, hintZones: [...hintZones].sort(compareText), hintNodes: [...hintNodes].sort(compareText) };
}

function proxyOptions(
  options: IptablesOptions,
  nodes: readonly ClusterNode[],
  services: readonly ProxyService[],
  rejections: Rejection[],
): ProxyOptions {
  const { clusterCIDRs, masqueradeAll, nodePortAddresses, localhostNodePorts } = options;
  const podCidrs = clusterCIDRs === null ? nodes.flatMap((node) => readPodCidrs(node, rejections)) : clusterCIDRs.flatMap(readCidr);
  const targets = services.flatMap((service) => service.endpoints.map(({ ports }) => Object.keys(ports).length));
  return {
    clusterCIDRs: coveringCidrs(podCidrs),
    masqueradeAll,
    nodePortAddresses: nodePortAddresses.length === 0 ? null : coveringCidrs(nodePortAddresses.flatMap(readCidr)),
    localhostNodePorts,
    sparseComments: targets.reduce((sum, count) => sum + count, 0) > LARGE_CLUSTER,
  };
}

function readCidr(text: string): Cidr[] {
  const cidr = parseCidr(text);
  return cidr === null ? [] : [cidr];
}

function readPodCidrs(node: ClusterNode, rejections: Rejection[]): Cidr[] {
  const report = settingReport('Node', { namespace: '', name: node.name }, rejections);
  return node.podCIDRs.flatMap((text) => {
    const cidrs = readCidr(text.trim());
    if (cidrs.length === 0) report('spec.podCIDRs', 'InvalidCIDR', `${quoted(text)} is no CIDR such as 10.0.0.0/8`);
    return cidrs;
  });
}

function proxyNode(node: ClusterNode, report: Report): ProxyNode {
  const addressesOf = (type: string): string[] => {
    const texts = node.addresses.filter((address) => address.type === type).map(({ address }) => address);
    return [...new Set(texts.flatMap((text) => readNodeAddress(text, report)))];
  };
  return {
    name: node.name,
    internalIPs: addressesOf('InternalIP'),
    externalIPs: addressesOf('ExternalIP'),
    zone: node.labels[ZONE_LABEL] ?? null,
  };
}

function readNodeAddress(text: string, report: Report): string[] {
  const address = parseAddress(text.trim());
  if (address !== null) return [address.text];
  report('status.addresses', 'InvalidAddress', `${quoted(text)} is no address`);
  return [];
}
