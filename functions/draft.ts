// Drafts: the files of a version before it is written. One is computed from what the cluster has now, or from a held
// configuration and the present endpoints: a rollback holds configuration and never endpoints.

import { digestOf } from '../shared/digest.ts';
import type { Endpoints } from '../shared/endpoint.ts';
import type { Pin } from '../shared/head.ts';
import { configurationOf, type Manifest, type NodeFile, type Summary } from '../shared/manifest.ts';
import type { Rejection } from '../shared/rejection.ts';
import { type PerRole, type Role, ROLES } from '../shared/role.ts';
import type { Digest, FileSource, FileSources } from '../shared/version-store.ts';
import { checkConsistency } from './check-consistency.ts';
import type { ClusterNode } from './cluster/objects.ts';
import type { Computed, Configuration } from './compute.ts';
import type { StoredConfiguration } from './read-configuration.ts';

export type Compute = (configuration: Configuration, endpoints: Endpoints, nodes: readonly ClusterNode[]) => Computed;

/** What a version is computed from: as the cluster has it now, or as versions hold it. */
export interface Present {
  readonly configuration: Configuration;
  /** `router/certificates/*` and `router/secrets/*` as they are stored: sealed, if they are to be. */
  readonly secrets: FileSources;
  readonly endpoints: Endpoints;
  readonly nodes: readonly ClusterNode[];
}

/** A version whose configuration is held, with all its files. */
export interface Held extends StoredConfiguration {
  readonly manifest: Manifest;
}

export interface Draft {
  readonly files: FileSources;
  readonly rejections: readonly Rejection[];
  readonly summary: Summary;
}

/** The cluster's own version. */
export function ownDraft(present: Present, compute: Compute): Draft {
  const { files, rejections, summary } = compute(present.configuration, present.endpoints, present.nodes);
  checkConsistency(files, present.secrets.keys());
  return { files: new Map<string, FileSource>([...files, ...present.secrets]), rejections, summary };
}

/** What runs under a pin: the pinned roles' configuration as it was, the others' as it is, and the endpoints of now. */
export function heldDraft(present: Present, held: Held, pin: Pin, compute: Compute): Draft {
  if (pin.freeze) return frozenDraft(ownDraft(present, compute), held.manifest, pin.roles);
  const holds = (role: Role): boolean => pin.roles.includes(role);
  const configuration: Configuration = {
    router: (holds('router') ? held : present).configuration.router,
    proxy: (holds('service-proxy') ? held : present).configuration.proxy,
  };
  // Certificates and passwords belong to the router's configuration.
  return ownDraft({ ...present, configuration, secrets: (holds('router') ? held : present).secrets }, compute);
}

/** True when a pin leaves nothing to compute: every role runs the version's exact bytes. */
export function isStill(pin: Pin): boolean {
  return pin.freeze && ROLES.every((role) => pin.roles.includes(role));
}

/** True when a version with this manifest would be no different: its files say everything, the rest is metadata. */
export function isSameAs(draft: Draft, manifest: Manifest): boolean {
  const files = Object.entries(manifest.files);
  return files.length === draft.files.size && files.every(([path, { digest }]) => sourceDigest(draft.files.get(path)) === digest);
}

/** The digests of the draft's configuration, as a version's reference holds them. */
export function draftConfiguration(draft: Draft): PerRole<Digest> {
  const files: Record<string, NodeFile> = {};
  for (const [path, source] of draft.files) {
    if (!path.startsWith('configuration/')) continue;
    files[path] = isBytes(source) ? { digest: digestOf(source), size: Buffer.byteLength(source) } : source;
  }
  return configurationOf(files);
}

/** The pinned roles' exact files; everything else as it is now. */
function frozenDraft(own: Draft, manifest: Manifest, roles: readonly Role[]): Draft {
  const isFrozen = (path: string): boolean => roles.some((role) => FILES_OF[role].some((folder) => path.startsWith(folder)));
  return {
    ...own,
    files: new Map<string, FileSource>([
      ...[...own.files].filter(([path]) => !isFrozen(path)),
      ...Object.entries(manifest.files).filter(([path]) => isFrozen(path)),
    ]),
  };
}

/** What a role runs, what that was computed from, and its description for people. */
const FILES_OF: PerRole<readonly string[]> = {
  router: ['router/', 'configuration/router/', 'routes/'],
  'service-proxy': ['iptables/', 'configuration/service-proxy/'],
};

function sourceDigest(source: FileSource | undefined): Digest | undefined {
  if (source === undefined) return undefined;
  return isBytes(source) ? digestOf(source) : source.digest;
}

function isBytes(source: FileSource): source is string | Uint8Array {
  return typeof source === 'string' || source instanceof Uint8Array;
}
