// Manifests of a small cluster for tests of the whole system. The names of pods are their addresses.

/** An object as its manifest says it. */
export type Manifest = Readonly<Record<string, unknown>>;

export const NODE = 'n1';
export const NODE_ADDRESS = '192.168.77.2';
/** Every address of it is a pod's. */
export const POD_NETWORK = '10.180.0.0/16';
export const POD_PORT = 8080;

const NAMESPACE = 'shop';

export const clusterManifests: readonly Manifest[] = [
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: NODE },
    spec: { podCIDRs: [POD_NETWORK] },
    status: { addresses: [{ type: 'InternalIP', address: NODE_ADDRESS }] },
  },
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } },
];

/** A service on port 80 of a cluster IP, and the pods behind it. */
export function service(name: string, clusterIP: string, pods: readonly string[]): readonly Manifest[] {
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: NAMESPACE, name },
      spec: { clusterIP, clusterIPs: [clusterIP], ports: [{ name: 'http', port: 80, targetPort: POD_PORT, protocol: 'TCP' }] },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { namespace: NAMESPACE, name: `${name}-1`, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: POD_PORT, protocol: 'TCP' }],
      endpoints: pods.map((address) => ({ addresses: [address], nodeName: NODE, conditions: { ready: true } })),
    },
  ];
}

/** A route to a service; `spec` adds to it, and `annotations` are its own. */
export function route(
  name: string,
  host: string,
  to: string,
  spec: Manifest = {},
  annotations: Readonly<Record<string, string>> = {},
): Manifest {
  return {
    apiVersion: 'route.openshift.io/v1',
    kind: 'Route',
    metadata: { namespace: NAMESPACE, name, annotations },
    spec: { host, to: { kind: 'Service', name: to }, ...spec },
  };
}
