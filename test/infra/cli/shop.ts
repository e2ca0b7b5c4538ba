// A cluster of one shop, as manifests: a Route to a Service with its pods, and what a test adds.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Shop {
  readonly host?: string;
  /** Addresses of the pods. */
  readonly pods?: readonly string[];
  /** More objects. */
  readonly more?: readonly object[];
}

/** Writes the cluster's one file, in place of an earlier one; returns the folder. */
export function writeShop(folder: string, { host = 'shop.example.test', pods = ['10.180.0.1'], more = [] }: Shop = {}): string {
  const items = [route('web', host), service(), slice(pods), ...more];
  writeFileSync(join(folder, 'shop.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  return folder;
}

/** A Route of the shop to its one service. */
export function route(name: string, host: string): object {
  return {
    apiVersion: 'route.openshift.io/v1',
    kind: 'Route',
    metadata: { namespace: 'shop', name },
    spec: { host, to: { kind: 'Service', name: 'web' } },
  };
}

function service(): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'shop', name: 'web' },
    spec: {
      type: 'ClusterIP',
      clusterIP: '172.30.0.10',
      clusterIPs: ['172.30.0.10'],
      ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }],
    },
  };
}

function slice(pods: readonly string[]): object {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace: 'shop', name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: pods.map((address, index) => ({
      addresses: [address],
      nodeName: 'local',
      conditions: { ready: true },
      targetRef: { kind: 'Pod', name: `web-${index + 1}` },
    })),
  };
}
