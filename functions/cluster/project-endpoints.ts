// What stands behind a service: an EndpointSlice (`discovery.k8s.io/v1`) or the older Endpoints (`v1`), projected. An
// address that cannot be read is left out alone and reported. Which addresses may be sent traffic is decided by each role.

import { parseAddress } from '../../shared/address.ts';
import type { Endpoint, EndpointPort, EndpointSubset, Family } from '../../shared/endpoint.ts';
import { compareText } from '../../shared/json.ts';
import { shown } from '../../shared/rejection.ts';
import {
  type Fields,
  WrongField,
  objects,
  optionalBoolean,
  optionalInteger,
  optionalObject,
  optionalText,
  pathOf,
  requiredText,
  texts,
} from './fields.ts';
import { type NamespacedName, checkedName, isObjectName, readNamespacedName } from './metadata.ts';
import { readPortName, readProtocol } from './project-service.ts';

/** Part of what is behind a service: one EndpointSlice, or one Endpoints object. */
export interface ServicePart {
  readonly namespace: string;
  readonly name: string;
  readonly service: string;
  /** Empty for a slice of host names: it counts as a slice, and holds nothing that we can use. */
  readonly subsets: readonly EndpointSubset[];
}

/** A field that is left out, while the rest of its object stays. */
export interface LeftOut {
  readonly field: string;
  readonly reason: string;
  readonly message: string;
}

const SERVICE_NAME = 'kubernetes.io/service-name';

/** A slice; null when it belongs to no service. Throws WrongField. */
export function projectSlice(whole: Fields, leftOut: LeftOut[]): ServicePart | null {
  const own = readNamespacedName(whole);
  const service = readServiceName(whole);
  if (service === null) return null;
  const family = requiredText(whole, 'addressType');
  if (family === 'FQDN') return { ...own, service, subsets: [] };
  if (family !== 'IPv4' && family !== 'IPv6') throw new WrongField('addressType', 'WrongType', 'expected IPv4, IPv6 or FQDN');
  const ports = objects(whole, 'ports').flatMap(readPort);
  const endpoints: Endpoint[] = [];
  for (const entry of objects(whole, 'endpoints')) {
    const endpoint = readSliceEndpoint(entry, family, leftOut);
    if (endpoint !== null) endpoints.push(endpoint);
  }
  return { ...own, service, subsets: [{ family, ports, endpoints }] };
}

/** An Endpoints object: its name is its service's. Throws WrongField. */
export function projectEndpoints(whole: Fields, leftOut: LeftOut[]): ServicePart {
  const own: NamespacedName = readNamespacedName(whole);
  const subsets = objects(whole, 'subsets').flatMap((subset): EndpointSubset[] => {
    const ports = objects(subset, 'ports').flatMap(readPort);
    const found = [
      ...objects(subset, 'addresses').map((entry) => readAddressEntry(entry, true, leftOut)),
      ...objects(subset, 'notReadyAddresses').map((entry) => readAddressEntry(entry, false, leftOut)),
    ];
    return (['IPv4', 'IPv6'] as const).map((family) => ({
      family,
      ports,
      endpoints: found.flatMap((entry) => (entry?.family === family ? [entry.endpoint] : [])),
    }));
  });
  return { ...own, service: own.name, subsets };
}

function readServiceName(whole: Fields): string | null {
  const metadata = optionalObject(whole, 'metadata');
  const labels = metadata === null ? null : optionalObject(metadata, 'labels');
  if (labels === null || optionalText(labels, SERVICE_NAME) === null) return null;
  return checkedName(labels, SERVICE_NAME, isObjectName);
}

/** None for a port without a number ("all ports"): nobody can be sent there. */
function readPort(entry: Fields): EndpointPort[] {
  const port = optionalInteger(entry, 'port', 0, 65_535) ?? 0;
  const read = { name: readPortName(entry), port, protocol: readProtocol(entry), appProtocol: optionalText(entry, 'appProtocol') };
  return port === 0 ? [] : [read];
}

function readSliceEndpoint(entry: Fields, family: Family, leftOut: LeftOut[]): Endpoint | null {
  // The other addresses of an endpoint are the same pod's: consumers take the first only (KEP-0752).
  const address = readAddress(entry, 'addresses[0]', texts(entry, 'addresses')[0], family, leftOut);
  const conditions = optionalObject(entry, 'conditions') ?? NO_CONDITIONS;
  const hints = optionalObject(entry, 'hints');
  const endpoint: Endpoint = {
    address: address?.text ?? '',
    ready: optionalBoolean(conditions, 'ready') ?? true,
    serving: optionalBoolean(conditions, 'serving') ?? true,
    terminating: optionalBoolean(conditions, 'terminating') ?? false,
    node: validNameOrNull(optionalText(entry, 'nodeName')),
    zone: optionalText(entry, 'zone'),
    hintZones: hints === null ? NO_HINTS : hintNames(hints, 'forZones'),
    hintNodes: hints === null ? NO_HINTS : hintNames(hints, 'forNodes'),
    pod: readPod(entry),
  };
  return address === null ? null : endpoint;
}

const NO_HINTS: readonly string[] = [];
const NO_CONDITIONS: Fields = { values: {}, parent: null, key: '', index: -1 };

function readAddressEntry(
  entry: Fields,
  ready: boolean,
  leftOut: LeftOut[],
): { readonly family: Family; readonly endpoint: Endpoint } | null {
  const address = readAddress(entry, 'ip', optionalText(entry, 'ip') ?? undefined, null, leftOut);
  const node = validNameOrNull(optionalText(entry, 'nodeName'));
  const pod = readPod(entry);
  if (address === null) return null;
  const state = { ready, serving: ready, terminating: false };
  return { family: address.family, endpoint: { address: address.text, ...state, node, zone: null, hintZones: [], hintNodes: [], pod } };
}

function readAddress(entry: Fields, key: string, written: string | undefined, family: Family | null, leftOut: LeftOut[]) {
  const address = written === undefined ? null : parseAddress(written);
  if (address !== null && (family === null || address.family === family)) return address;
  const field = pathOf(entry, key);
  const found = written === undefined ? 'nothing' : shown(written);
  leftOut.push({ field, reason: 'InvalidAddress', message: `expected an ${family ?? 'IP'} address, found ${found}` });
  return null;
}

function hintNames(hints: Fields, key: string): string[] {
  return objects(hints, key)
    .map((hint) => requiredText(hint, 'name'))
    .sort(compareText);
}

function readPod(entry: Fields): string | null {
  const target = optionalObject(entry, 'targetRef');
  if (target === null || (optionalText(target, 'kind') ?? 'Pod') !== 'Pod') return null;
  return validNameOrNull(optionalText(target, 'name'));
}

/** The API server does not check these names; no pod and no node can have one that it would refuse. */
function validNameOrNull(name: string | null): string | null {
  return name !== null && isObjectName(name) ? name : null;
}
