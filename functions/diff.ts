// What differs between two versions, in the cluster's words first: routes, services, endpoints, certificates, rejections;
// then the files. Shards with equal digests are not read, so the cost is that of the change.

import type { ServiceEndpoints } from '../shared/endpoint.ts';
import { canonicalJson, compareText, type Json } from '../shared/json.ts';
import type { FileEntry } from '../shared/manifest.ts';
import { mapParallel } from '../shared/parallel.ts';
import type { Rejection } from '../shared/rejection.ts';
import { isSecretPath } from '../shared/seal.ts';
import { readShards } from '../shared/shard.ts';
import type { VersionStore } from '../shared/version-store.ts';
import { showVersion } from './operate.ts';

export type Change = 'added' | 'removed' | 'changed';

/** A field by its path, `settings.timeoutServer`; undefined: not there. Lists are one value. */
export interface FieldChange {
  readonly field: string;
  readonly from: Json | undefined;
  readonly to: Json | undefined;
}

/** An object by `namespace/name`; fields only when it changed. */
export interface ObjectChange {
  readonly name: string;
  readonly change: Change;
  readonly fields: readonly FieldChange[];
}

/** Endpoints as `address:port/protocol`; changed: it serves or drains otherwise than before. */
export interface EndpointChange {
  readonly service: string;
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export interface FileChange {
  readonly path: string;
  readonly change: Change;
}

export interface VersionDiff {
  readonly from: number;
  readonly to: number;
  /** Options of the router and of the service proxy. */
  readonly options: readonly FieldChange[];
  readonly routes: readonly ObjectChange[];
  readonly services: readonly ObjectChange[];
  readonly endpoints: readonly EndpointChange[];
  readonly nodes: readonly ObjectChange[];
  /** Certificates, CAs and passwords, by path; their content is never compared in the open. */
  readonly certificates: readonly FileChange[];
  readonly rejections: { readonly added: readonly Rejection[]; readonly removed: readonly Rejection[] };
  readonly files: readonly FileChange[];
}

type FileList = Readonly<Record<string, FileEntry>>;
type Texts = ReadonlyMap<string, Uint8Array>;

/** Both versions' text of what differs between them. */
interface Sides {
  readonly from: Texts;
  readonly to: Texts;
}

const COMPARED = ['configuration/', 'endpoints/', 'rejections/'];
const PARALLEL = 16;

/**
 * Compares two versions.
 * @throws HeadgateError `unknown-version` (stage `usage`) naming the versions that exist
 */
export async function diffVersions(store: VersionStore, from: number, to: number, signal?: AbortSignal): Promise<VersionDiff> {
  const [a, b] = await Promise.all([showVersion(store, from, signal), showVersion(store, to, signal)]);
  const files = fileChanges(a.files, b.files);
  const read = (list: FileList): Promise<Texts> => readChanged(store, list, files, signal);
  const sides: Sides = { from: await read(a.files), to: await read(b.files) };
  return {
    from,
    to,
    options: ['configuration/router/base', 'configuration/service-proxy/base'].flatMap((path) => baseChanges(sides, path)),
    routes: objectChanges(sides, 'configuration/router/routes'),
    services: objectChanges(sides, 'configuration/service-proxy/services'),
    endpoints: endpointChanges(sides),
    nodes: objectChanges(sides, 'endpoints/nodes'),
    certificates: files.filter(({ path }) => isSecretPath(path)),
    rejections: rejectionChanges(sides),
    files,
  };
}

function fileChanges(from: FileList, to: FileList): FileChange[] {
  const paths = [...new Set([...Object.keys(from), ...Object.keys(to)])].sort(compareText);
  return paths.flatMap((path): FileChange[] => {
    if (from[path]?.digest === to[path]?.digest) return [];
    return [{ path, change: changeOf(from[path], to[path]) }];
  });
}

async function readChanged(store: VersionStore, list: FileList, changes: readonly FileChange[], signal?: AbortSignal): Promise<Texts> {
  const wanted = changes.flatMap(({ path }) => {
    const entry = list[path];
    return entry !== undefined && COMPARED.some((folder) => path.startsWith(folder)) ? [{ path, entry }] : [];
  });
  return new Map(await mapParallel(wanted, PARALLEL, async ({ path, entry }) => [path, await store.readFile(entry, signal)] as const));
}

function objectChanges(sides: Sides, folder: string): ObjectChange[] {
  return pairs<Named>(sides, folder, nameOf).map(({ name, from, to }) => ({
    name,
    change: changeOf(from, to),
    fields: from === undefined || to === undefined ? [] : fieldChanges(from, to),
  }));
}

function endpointChanges(sides: Sides): EndpointChange[] {
  const changes = pairs<ServiceEndpoints>(sides, 'endpoints/services', nameOf).map(({ name, from, to }) => {
    const before = endpointStates(from);
    const after = endpointStates(to);
    return {
      service: name,
      added: [...after.keys()].filter((endpoint) => !before.has(endpoint)),
      removed: [...before.keys()].filter((endpoint) => !after.has(endpoint)),
      changed: [...after].flatMap(([endpoint, state]) => (before.has(endpoint) && before.get(endpoint) !== state ? [endpoint] : [])),
    };
  });
  return changes.filter(({ added, removed, changed }) => added.length + removed.length + changed.length > 0);
}

/** `address:port/protocol` -> everything else that is known of it. */
function endpointStates(service: ServiceEndpoints | undefined): Map<string, string> {
  const states = new Map<string, string>();
  for (const { family, ports, endpoints } of service?.subsets ?? []) {
    for (const { address, ...state } of endpoints) {
      const host = family === 'IPv6' ? `[${address}]` : address;
      for (const { port, protocol } of ports) states.set(`${host}:${port}/${protocol}`, canonicalJson(state));
    }
  }
  return states;
}

function rejectionChanges(sides: Sides): VersionDiff['rejections'] {
  const found = pairs<Rejection>(sides, 'rejections', canonicalJson);
  return {
    added: found.flatMap(({ from, to }) => (from === undefined && to !== undefined ? [to] : [])),
    removed: found.flatMap(({ from, to }) => (from !== undefined && to === undefined ? [from] : [])),
  };
}

function baseChanges({ from, to }: Sides, path: string): FieldChange[] {
  const read = (texts: Texts): Json => JSON.parse(Buffer.from(texts.get(path) ?? Buffer.from('{}')).toString('utf8'));
  return fieldChanges(read(from), read(to));
}

interface Named {
  readonly namespace?: string;
  readonly name: string;
}

interface Pair<T> {
  readonly name: string;
  readonly from: T | undefined;
  readonly to: T | undefined;
}

/** The entries of a folder of shards that differ, by name. */
function pairs<T>({ from, to }: Sides, folder: string, keyOf: (entry: T) => string): Pair<T>[] {
  const before = new Map(readShards<T>(from, folder).map((entry) => [keyOf(entry), entry]));
  const after = new Map(readShards<T>(to, folder).map((entry) => [keyOf(entry), entry]));
  return [...new Set([...before.keys(), ...after.keys()])]
    .sort(compareText)
    .map((name) => ({ name, from: before.get(name), to: after.get(name) }))
    .filter((pair) => canonicalJson([pair.from]) !== canonicalJson([pair.to]));
}

function fieldChanges(from: unknown, to: unknown): FieldChange[] {
  const before = leaves(from);
  const after = leaves(to);
  return [...new Set([...before.keys(), ...after.keys()])]
    .sort(compareText)
    .map((field) => ({ field, from: before.get(field), to: after.get(field) }))
    .filter((change) => canonicalJson([change.from]) !== canonicalJson([change.to]));
}

/** Values by the path of their field; an object is its fields, a list is one value. */
function leaves(value: unknown, path: readonly string[] = []): Map<string, Json> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return new Map([[path.join('.'), asJson(value)]]);
  return new Map(Object.entries(value).flatMap(([key, inner]) => [...leaves(inner, [...path, key])]));
}

function asJson(value: unknown): Json {
  return JSON.parse(JSON.stringify(value));
}

function nameOf({ namespace, name }: Named): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

function changeOf(from: unknown, to: unknown): Change {
  if (from === undefined) return 'added';
  return to === undefined ? 'removed' : 'changed';
}
