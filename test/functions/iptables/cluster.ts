// A cluster in few words: services, endpoints and nodes for tests of the service proxy.

import { admitServices } from '../../../functions/iptables/admit.ts';
import { buildProxy } from '../../../functions/iptables/build.ts';
import { renderProxy } from '../../../functions/iptables/render.ts';
import type { ClusterNode, ClusterState, Service, ServicePort } from '../../../functions/cluster/objects.ts';
import type { IptablesOptions } from '../../../functions/options.ts';
import type { Endpoint, EndpointPort, Endpoints, EndpointSubset, Family } from '../../../shared/endpoint.ts';
import type { Files } from '../../../shared/files.ts';
import { sortRejections, type Rejection } from '../../../shared/rejection.ts';

export const OPTIONS: IptablesOptions = {
  clusterCIDRs: ['10.0.0.0/8'],
  masqueradeAll: false,
  nodePortAddresses: [],
  localhostNodePorts: false,
};

/** What differs from a ClusterIP service `ns1/svc1` at 172.30.0.41 with the port p80. */
export type ServiceChanges = Partial<Omit<Service, 'meta' | 'ports'>> & {
  readonly namespace?: string;
  readonly name?: string;
  readonly created?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly ports?: readonly Partial<ServicePort>[];
};

export function service({ namespace = 'ns1', name = 'svc1', created = 0, labels = {}, ports, ...changes }: ServiceChanges = {}): Service {
  return {
    meta: { namespace, name, uid: `${namespace}-${name}`, created, generation: 1, labels, annotations: {} },
    type: 'ClusterIP',
    clusterIPs: ['172.30.0.41'],
    externalIPs: [],
    loadBalancerIngress: [],
    loadBalancerSourceRanges: [],
    externalTrafficPolicy: '',
    internalTrafficPolicy: '',
    trafficDistribution: null,
    healthCheckNodePort: 0,
    sessionAffinity: 'None',
    affinityTimeout: 10_800,
    publishNotReadyAddresses: false,
    ports: (ports ?? [{ name: 'p80', port: 80 }]).map((given) => ({
      name: '',
      protocol: 'TCP',
      port: 80,
      targetPort: null,
      nodePort: 0,
      appProtocol: null,
      ...given,
    })),
    ...changes,
  };
}

export function virtualIP(ip: string, ipMode = 'VIP'): Service['loadBalancerIngress'][number] {
  return { ip, hostname: null, ipMode };
}

export function endpoint(address: string, changes: Partial<Endpoint> = {}): Endpoint {
  return {
    address,
    ready: true,
    serving: true,
    terminating: false,
    node: null,
    zone: null,
    hintZones: [],
    hintNodes: [],
    pod: null,
    ...changes,
  };
}

/** An endpoint that serves while it terminates. */
export function terminating(address: string, changes: Partial<Endpoint> = {}): Endpoint {
  return endpoint(address, { ready: false, terminating: true, ...changes });
}

export function port(name: string, number: number, protocol: EndpointPort['protocol'] = 'TCP'): EndpointPort {
  return { name, port: number, protocol, appProtocol: null };
}

export function subset(ports: readonly EndpointPort[], endpoints: readonly Endpoint[], family: Family = 'IPv4'): EndpointSubset {
  return { family, ports, endpoints };
}

/** Endpoints by `namespace/name`. */
export function endpointsOf(services: Readonly<Record<string, readonly EndpointSubset[]>>): Endpoints {
  return new Map(
    Object.entries(services).map(([key, subsets]) => {
      const [namespace = '', name = ''] = key.split('/');
      return [key, { namespace, name, subsets }];
    }),
  );
}

export function node(name: string, changes: Partial<ClusterNode> = {}): ClusterNode {
  return { name, labels: {}, addresses: [], podCIDRs: [], ...changes };
}

export function state(services: readonly Service[], endpoints: Endpoints = new Map(), nodes: readonly ClusterNode[] = []): ClusterState {
  return { routes: [], services, nodes, namespaces: [], secrets: [], endpoints, rejections: [] };
}

/** From objects to the files of a version, and what was left out on the way. */
export function proxyFiles(
  cluster: ClusterState,
  options: Partial<IptablesOptions> = {},
): { readonly files: Files; readonly rejections: readonly Rejection[] } {
  const configuration = admitServices(cluster, { ...OPTIONS, ...options });
  const model = buildProxy(configuration, cluster.endpoints, cluster.nodes);
  return { files: renderProxy(model), rejections: sortRejections([...configuration.rejections, ...model.rejections]) };
}
