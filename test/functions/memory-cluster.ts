// A cluster held in memory: what a test sets is what the next reading lists.

import { clusterState } from '../../functions/cluster/cluster-state.ts';
import type { ClusterSource, ClusterState } from '../../functions/cluster/objects.ts';
import { type Kind, project } from '../../functions/cluster/project.ts';

export class MemoryCluster implements ClusterSource {
  readonly #objects = new Map<string, readonly [Kind, unknown]>();
  /** Called at the beginning of each reading. */
  beforeRead: () => Promise<void> = () => Promise.resolve();
  reads = 0;

  async read(signal?: AbortSignal): Promise<ClusterState> {
    signal?.throwIfAborted();
    this.reads += 1;
    await this.beforeRead();
    const projections = [...this.#objects.values()].map(([kind, raw]) => project(kind, raw));
    // A listing takes time: what changes meanwhile is not in it.
    await new Promise((resolve) => setImmediate(resolve));
    return clusterState(projections.filter((projection) => projection !== null));
  }

  route(name: string, spec: Readonly<Record<string, unknown>>): void {
    const whole = { to: { kind: 'Service', name: 'web' }, ...spec };
    this.#objects.set(`Route/${name}`, ['Route', { metadata: { namespace: 'shop', name, uid: name }, spec: whole }]);
  }

  service(name: string, spec: Readonly<Record<string, unknown>> = {}): void {
    const whole = {
      type: 'ClusterIP',
      clusterIP: '172.30.0.10',
      clusterIPs: ['172.30.0.10'],
      ports: [{ port: 80, targetPort: 8080 }],
      ...spec,
    };
    this.#objects.set(`Service/${name}`, ['Service', { metadata: { namespace: 'shop', name }, spec: whole }]);
  }

  endpoints(service: string, ...addresses: readonly string[]): void {
    const metadata = { namespace: 'shop', name: service, labels: { 'kubernetes.io/service-name': service } };
    const endpoints = addresses.map((address) => ({ addresses: [address], nodeName: 'node-a' }));
    this.#objects.set(`EndpointSlice/${service}`, [
      'EndpointSlice',
      { metadata, addressType: 'IPv4', ports: [{ port: 8080, protocol: 'TCP' }], endpoints },
    ]);
  }

  node(name: string, address: string): void {
    const status = { addresses: [{ type: 'InternalIP', address }] };
    this.#objects.set(`Node/${name}`, ['Node', { metadata: { name, labels: {} }, spec: {}, status }]);
  }

  remove(key: string): void {
    this.#objects.delete(key);
  }
}

/** A service with two endpoints, a node and a route. */
export function smallCluster(): MemoryCluster {
  const cluster = new MemoryCluster();
  cluster.node('node-a', '192.0.2.1');
  cluster.service('web');
  cluster.endpoints('web', '10.1.0.1', '10.1.0.2');
  cluster.route('front', { host: 'front.example.com' });
  return cluster;
}
