// Manifests of a cluster with many services, each with five endpoints on as many nodes, in a folder that `serve` reads.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const PODS = [0, 1, 2, 3, 4];
const POD_PORT = 8080;

/** Writes all of them. The endpoints of the first service have a file of their own: see `moveEndpoint`. */
export async function writeServices(folder: string, count: number): Promise<void> {
  const numbers = Array.from({ length: count }, (_, index) => index);
  const nodes = PODS.map((pod) => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: `n${pod}` },
    spec: { podCIDRs: [`10.${pod + 1}.0.0/16`] },
    status: { addresses: [{ type: 'InternalIP', address: `192.168.77.${pod + 2}` }] },
  }));
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } };
  const slices = numbers.slice(1).map((index) =>
    slice(
      index,
      PODS.map((pod) => podAddress(index, pod)),
    ),
  );
  await writeFile(join(folder, 'cluster.json'), list([...nodes, namespace, ...numbers.map(service), ...slices]));
  await moveEndpoint(folder, 0);
}

/** One endpoint of the first service moves to another address; each turn to another one. */
export async function moveEndpoint(folder: string, turn: number): Promise<void> {
  const addresses = [...PODS.slice(1).map((pod) => podAddress(0, pod)), movedAddress(turn)];
  await writeFile(join(folder, 'changing.json'), list([slice(0, addresses)]));
}

/** Where the last endpoint of the first service is in a turn: beyond those of the other services. */
function movedAddress(turn: number): string {
  return `10.1.200.${turn + 1}`;
}

function podAddress(index: number, pod: number): string {
  return `10.${pod + 1}.${index >> 8}.${index & 255}`;
}

function service(index: number): object {
  const clusterIP = `172.${16 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
  const ports = [{ name: 'http', port: 80, targetPort: POD_PORT, protocol: 'TCP' }];
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'ns', name: `s${index}` },
    spec: { clusterIP, clusterIPs: [clusterIP], ports },
  };
}

function slice(index: number, addresses: readonly string[]): object {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace: 'ns', name: `s${index}-1`, labels: { 'kubernetes.io/service-name': `s${index}` } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: POD_PORT, protocol: 'TCP' }],
    endpoints: addresses.map((address, pod) => ({ addresses: [address], nodeName: `n${pod}`, conditions: { ready: true } })),
  };
}

function list(items: readonly object[]): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
}
