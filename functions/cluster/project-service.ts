// A Service (`v1`), projected. What the API server would default is defaulted here, so that a manifest on disk means
// what it would mean in a cluster.

import type { Protocol } from '../../shared/endpoint.ts';
import {
  type Fields,
  WrongField,
  objects,
  optionalBoolean,
  optionalInteger,
  optionalObject,
  optionalText,
  pathOf,
  text,
  texts,
  wrongType,
} from './fields.ts';
import { checkedName, isLabelName, readMeta } from './metadata.ts';
import type { LoadBalancerIngress, Service, ServicePort } from './objects.ts';
import { readPortReference } from './project-route.ts';

/** Seconds: what Kubernetes sets when `clientIP.timeoutSeconds` is absent, and the most that it takes. */
const AFFINITY_DEFAULT = 10_800;
const AFFINITY_LONGEST = 86_400;

const NO_SPEC: Fields = { values: {}, parent: null, key: '', index: -1 };

/** Throws WrongField. */
export function projectService(whole: Fields): Service {
  const spec = optionalObject(whole, 'spec') ?? NO_SPEC;
  return {
    meta: readMeta(whole),
    type: text(spec, 'type', 'ClusterIP'),
    clusterIPs: readClusterIPs(spec),
    externalIPs: [...new Set([...texts(spec, 'externalIPs'), ...texts(spec, 'deprecatedPublicIPs')])],
    loadBalancerIngress: readIngress(whole),
    loadBalancerSourceRanges: texts(spec, 'loadBalancerSourceRanges'),
    externalTrafficPolicy: text(spec, 'externalTrafficPolicy', 'Cluster'),
    internalTrafficPolicy: text(spec, 'internalTrafficPolicy', 'Cluster'),
    trafficDistribution: optionalText(spec, 'trafficDistribution'),
    healthCheckNodePort: optionalInteger(spec, 'healthCheckNodePort', 0, 65_535) ?? 0,
    sessionAffinity: text(spec, 'sessionAffinity', 'None'),
    affinityTimeout: readAffinityTimeout(spec),
    publishNotReadyAddresses: optionalBoolean(spec, 'publishNotReadyAddresses') ?? false,
    ports: objects(spec, 'ports').map(readPort),
  };
}

/** A protocol; `TCP` when absent. */
export function readProtocol(fields: Fields): Protocol {
  const protocol = text(fields, 'protocol', 'TCP');
  if (protocol === 'TCP' || protocol === 'UDP' || protocol === 'SCTP') return protocol;
  throw new WrongField(pathOf(fields, 'protocol'), 'WrongType', 'expected TCP, UDP or SCTP');
}

/** A port's name; empty for the single unnamed port. */
export function readPortName(fields: Fields): string {
  return optionalText(fields, 'name') === null ? '' : checkedName(fields, 'name', isLabelName);
}

function readClusterIPs(spec: Fields): string[] {
  const single = optionalText(spec, 'clusterIP');
  const all = texts(spec, 'clusterIPs').filter((ip) => ip !== '');
  return all.length === 0 && single !== null ? [single] : all;
}

function readIngress(whole: Fields): LoadBalancerIngress[] {
  const status = optionalObject(whole, 'status');
  const loadBalancer = status === null ? null : optionalObject(status, 'loadBalancer');
  if (loadBalancer === null) return [];
  return objects(loadBalancer, 'ingress').map((ingress) => ({
    ip: optionalText(ingress, 'ip'),
    hostname: optionalText(ingress, 'hostname'),
    ipMode: text(ingress, 'ipMode', 'VIP'),
  }));
}

function readAffinityTimeout(spec: Fields): number {
  const config = optionalObject(spec, 'sessionAffinityConfig');
  const clientIP = config === null ? null : optionalObject(config, 'clientIP');
  return clientIP === null ? AFFINITY_DEFAULT : (optionalInteger(clientIP, 'timeoutSeconds', 1, AFFINITY_LONGEST) ?? AFFINITY_DEFAULT);
}

function readPort(port: Fields): ServicePort {
  return {
    name: readPortName(port),
    protocol: readProtocol(port),
    port: optionalInteger(port, 'port', 1, 65_535) ?? wrongType(port, 'port', 'a whole number', undefined),
    targetPort: readPortReference(port, 'targetPort'),
    nodePort: optionalInteger(port, 'nodePort', 0, 65_535) ?? 0,
    appProtocol: optionalText(port, 'appProtocol'),
  };
}
