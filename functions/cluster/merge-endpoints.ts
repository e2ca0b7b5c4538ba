// What is behind each service, made of its EndpointSlices. How endpoints are spread over slices, and the slices' names,
// leave no trace: slices with the same ports are one subset, everything is sorted, and equal endpoints are there once.

import type { Endpoint, EndpointPort, EndpointSubset, Endpoints, Family, ServiceEndpoints } from '../../shared/endpoint.ts';
import { canonicalJson, compareText } from '../../shared/json.ts';
import type { ServicePart } from './project-endpoints.ts';

/** The services that have endpoints, in order. Endpoints objects count only for a service without slices. */
export function mergeEndpoints(slices: readonly ServicePart[], older: readonly ServicePart[]): Endpoints {
  const parts = new Map<string, ServicePart[]>();
  for (const part of [...slices, ...withoutSlices(slices, older)]) {
    const key = serviceKey(part);
    const known = parts.get(key);
    if (known === undefined) parts.set(key, [part]);
    else known.push(part);
  }
  return new Map(
    [...parts]
      .map(([key, of]): [string, ServiceEndpoints] => [key, mergeParts(of)])
      .filter(([, service]) => service.subsets.length > 0)
      .sort(([, a], [, b]) => compareText(a.namespace, b.namespace) || compareText(a.name, b.name)),
  );
}

/** The Endpoints objects that count. */
export function withoutSlices(slices: readonly ServicePart[], older: readonly ServicePart[]): ServicePart[] {
  const sliced = new Set(slices.map(serviceKey));
  return older.filter((part) => !sliced.has(serviceKey(part)));
}

function serviceKey(part: ServicePart): string {
  return `${part.namespace}/${part.service}`;
}

function mergeParts(parts: readonly ServicePart[]): ServiceEndpoints {
  const byPorts = new Map<string, { readonly family: Family; readonly ports: readonly EndpointPort[]; readonly endpoints: Endpoint[] }>();
  for (const subset of parts.flatMap((part) => part.subsets)) {
    if (subset.endpoints.length === 0 || subset.ports.length === 0) continue;
    const ports = sortedOnce(subset.ports, comparePorts);
    const key = `${subset.family} ${canonicalJson(ports)}`;
    const known = byPorts.get(key);
    if (known === undefined) byPorts.set(key, { family: subset.family, ports, endpoints: [...subset.endpoints] });
    else for (const endpoint of subset.endpoints) known.endpoints.push(endpoint);
  }
  const subsets = [...byPorts]
    .sort(([a], [b]) => compareText(a, b))
    .map(([, subset]): EndpointSubset => ({ ...subset, endpoints: sortedOnce(subset.endpoints, compareEndpoints) }));
  const [first] = parts;
  return { namespace: first?.namespace ?? '', name: first?.service ?? '', subsets };
}

function sortedOnce<T>(entries: readonly T[], compare: (a: T, b: T) => number): T[] {
  const sorted = entries.toSorted(compare);
  return sorted.filter((entry, index) => {
    const before = sorted[index - 1];
    return before === undefined || compare(before, entry) !== 0;
  });
}

function compareEndpoints(a: Endpoint, b: Endpoint): number {
  return compareText(a.address, b.address) || compareText(canonicalJson(a), canonicalJson(b));
}

function comparePorts(a: EndpointPort, b: EndpointPort): number {
  return a.port - b.port || compareText(canonicalJson(a), canonicalJson(b));
}
