// The way back from a version to what it was computed from: its configuration and its endpoints. The inverse of the files
// that compute writes under `configuration/` and `endpoints/`.

import type { Endpoints, ServiceEndpoints } from '../shared/endpoint.ts';
import { HeadgateError } from '../shared/error.ts';
import type { Files } from '../shared/files.ts';
import type { VersionRef } from '../shared/head.ts';
import { compareText } from '../shared/json.ts';
import type { FileEntry, Manifest } from '../shared/manifest.ts';
import { mapParallel } from '../shared/parallel.ts';
import { type Rejection, sortRejections } from '../shared/rejection.ts';
import { isSecretPath } from '../shared/seal.ts';
import { readShards } from '../shared/shard.ts';
import type { VersionStore } from '../shared/version-store.ts';
import type { ClusterNode } from './cluster/objects.ts';
import type { Configuration } from './compute.ts';
import type { Held } from './draft.ts';
import type { AdmittedService, ProxyConfiguration } from './iptables/configuration.ts';
import type { AdmittedRoute, RoutedService, RouterConfiguration } from './router/configuration.ts';

// The types of what is parsed here follow from its paths; the bytes were checked against their digests.

/** A version's configuration, with the files that it needs and compute does not write: they are carried over as they are stored. */
export interface StoredConfiguration {
  readonly configuration: Configuration;
  /** `router/certificates/*` and `router/secrets/*`. */
  readonly secrets: ReadonlyMap<string, FileEntry>;
}

export interface StoredEndpoints {
  readonly endpoints: Endpoints;
  readonly nodes: readonly ClusterNode[];
}

const PARALLEL = 16;

/**
 * Reads the configuration that a version was computed from.
 * @throws HeadgateError `no-configuration` (stage `compute`) when the version does not hold one; stage `store` when it cannot be read
 */
export async function readConfiguration(store: VersionStore, ref: VersionRef, signal?: AbortSignal): Promise<StoredConfiguration> {
  const manifest = await store.readManifest(ref, signal);
  const files = await readFolder(store, manifest, 'configuration/', signal);
  try {
    return {
      configuration: { router: routerConfiguration(files), proxy: proxyConfiguration(files) },
      secrets: new Map(Object.entries(manifest.files).filter(([path]) => isSecretPath(path))),
    };
  } catch (cause) {
    throw new HeadgateError(
      'no-configuration',
      'compute',
      `version ${ref.number} holds no configuration that this release can compute again; \`rollback ${ref.number} --freeze\` runs its exact bytes`,
      { cause },
    );
  }
}

/**
 * Reads a version whose configuration is to be held.
 * @throws HeadgateError `pinned-version-gone` (stage `publish`) when there is no such version
 */
export async function readHeld(store: VersionStore, number: number, signal?: AbortSignal): Promise<Held> {
  const record = await store.readVersion(number, signal);
  if (record === null) {
    throw new HeadgateError(
      'pinned-version-gone',
      'publish',
      `version ${number}, whose configuration is held, is not in the store any more; the head stays. \`headgate resume\` ends the hold`,
    );
  }
  return { ...(await readConfiguration(store, record, signal)), manifest: await store.readManifest(record, signal) };
}

/** Reads the endpoints and nodes that a version was computed with. */
export async function readEndpoints(store: VersionStore, ref: VersionRef, signal?: AbortSignal): Promise<StoredEndpoints> {
  const files = await readFolder(store, await store.readManifest(ref, signal), 'endpoints/', signal);
  const services = readShards<ServiceEndpoints>(files, 'endpoints/services').sort(byName);
  return {
    endpoints: new Map(services.map((service) => [`${service.namespace}/${service.name}`, service])),
    nodes: readShards<ClusterNode>(files, 'endpoints/nodes').sort((a, b) => compareText(a.name, b.name)),
  };
}

function routerConfiguration(files: Files): RouterConfiguration {
  const base: Omit<RouterConfiguration, 'routes' | 'services' | 'rejections'> = JSON.parse(textAt(files, 'configuration/router/base'));
  return {
    ...base,
    routes: readShards<AdmittedRoute>(files, 'configuration/router/routes').sort(byName),
    services: readShards<RoutedService>(files, 'configuration/router/services').sort(byName),
    rejections: sortRejections(readShards<Rejection>(files, 'configuration/router/rejections')),
  };
}

function proxyConfiguration(files: Files): ProxyConfiguration {
  const base: Omit<ProxyConfiguration, 'services' | 'rejections'> = JSON.parse(textAt(files, 'configuration/service-proxy/base'));
  return {
    ...base,
    services: readShards<AdmittedService>(files, 'configuration/service-proxy/services').sort(byName),
    rejections: sortRejections(readShards<Rejection>(files, 'configuration/service-proxy/rejections')),
  };
}

function textAt(files: Files, path: string): string {
  const content = files.get(path);
  if (content === undefined) throw new Error(`${path} is missing`);
  return typeof content === 'string' ? content : Buffer.from(content).toString('utf8');
}

async function readFolder(store: VersionStore, manifest: Manifest, folder: string, signal: AbortSignal | undefined): Promise<Files> {
  const entries = Object.entries(manifest.files).filter(([path]) => path.startsWith(folder));
  const contents = await mapParallel(entries, PARALLEL, async ([path, entry]) => [path, await store.readFile(entry, signal)] as const);
  return new Map(contents);
}

interface Named {
  readonly namespace: string;
  readonly name: string;
}

function byName(a: Named, b: Named): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}
