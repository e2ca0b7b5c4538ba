// What an operator does to a store: list, show, roll back, resume, look. The CLI and the HTTP host call these; nothing here
// prints. A cluster is not needed for any of it.

import { HeadgateError } from '../shared/error.ts';
import type { Head, Pin, VersionRef } from '../shared/head.ts';
import type { FileEntry } from '../shared/manifest.ts';
import { type Role, ROLES } from '../shared/role.ts';
import { isSecretPath } from '../shared/seal.ts';
import type { HeadRevision, VersionDraft, VersionRecord, VersionStore } from '../shared/version-store.ts';
import { compute as computeFiles } from './compute.ts';
import { type Compute, type Draft, heldDraft, isSameAs, isStill, ownDraft, type Present } from './draft.ts';
import { type FleetNode, readFleet } from './fleet.ts';
import { readConfiguration, readEndpoints, readHeld } from './read-configuration.ts';

/** A version as `versions` lists it. */
export interface ListedVersion extends VersionRecord {
  /** What the head says of it: `target` (nodes run it), `newest` (the cluster's own, waiting), `pinned` (its configuration is held). */
  readonly marks: readonly ('target' | 'newest' | 'pinned')[];
}

/** Versions, newest first, at most `limit`. */
export async function listVersions(store: VersionStore, limit = Number.POSITIVE_INFINITY, signal?: AbortSignal): Promise<ListedVersion[]> {
  const head = (await store.readHead(signal))?.head ?? null;
  const listed: ListedVersion[] = [];
  for await (const record of store.versions(signal)) {
    if (listed.length >= limit) break;
    listed.push({ ...record, marks: marksOf(record.number, head) });
  }
  return listed;
}

export interface ShownVersion {
  readonly record: VersionRecord;
  readonly files: Readonly<Record<string, FileEntry>>;
}

/**
 * A version and the list of its files.
 * @throws HeadgateError `unknown-version` (stage `usage`) naming the versions that exist
 */
export async function showVersion(store: VersionStore, number: number, signal?: AbortSignal): Promise<ShownVersion> {
  const record = await existingVersion(store, number, signal);
  const { files } = await store.readManifest(record, signal);
  return { record, files };
}

/**
 * A file of a version, uncompressed.
 * @throws HeadgateError stage `usage`: `unknown-version`; `unknown-file` when the version has none at the path; `secret-file` for
 *   certificates and passwords, which are never shown
 */
export async function showFile(store: VersionStore, number: number, path: string, signal?: AbortSignal): Promise<Uint8Array> {
  const { files } = await showVersion(store, number, signal);
  const entry = Object.hasOwn(files, path) ? files[path] : undefined;
  if (entry === undefined) {
    throw new HeadgateError(
      'unknown-file',
      'usage',
      `version ${number} has no file ${JSON.stringify(path)}; \`headgate show ${number}\` lists them`,
    );
  }
  if (isSecretPath(path)) {
    throw new HeadgateError('secret-file', 'usage', `${path} may hold a private key or a password, which are never shown`);
  }
  return store.readFile(entry, signal);
}

export interface RollbackInput {
  readonly store: VersionStore;
  readonly version: number;
  /** At least one. */
  readonly roles: readonly Role[];
  /** True: the version's exact bytes for these roles, endpoints included. */
  readonly freeze: boolean;
  readonly reason: string;
  readonly author: string;
  readonly signal?: AbortSignal | undefined;
  readonly compute?: Compute;
}

/**
 * Puts a version's configuration back and holds it: one swap that any node can apply at once, since it is computed with the newest
 * endpoints that any version has. Newer configuration waits from then on, until `resume`.
 * @throws HeadgateError `unknown-version` (stage `usage`) naming the versions that exist; the head stays
 */
export async function rollback(input: RollbackInput): Promise<Head> {
  const { store, version, freeze, reason, author, signal, compute = computeFiles } = input;
  const pin: Pin = { version, roles: ROLES.filter((role) => input.roles.includes(role)), freeze, author, reason };
  if (pin.roles.length === 0) throw new HeadgateError('no-roles', 'usage', 'name at least one role: router, service-proxy');
  const { head } = await store.move(async (seen) => {
    const record = await existingVersion(store, version, signal);
    const before = presentHead(seen, store).head;
    const common = { newest: before.newest, pin, author, reason };
    if (isStill(pin)) return { ...common, version: null, target: refOf(record) };
    const draft = heldDraft(await storedPresent(store, before, signal), await readHeld(store, version, signal), pin, compute);
    return { ...common, version: versionDraft(draft, 'rollback', author, version), target: 'version' };
  }, signal);
  return presentHead(head, store).head;
}

export interface ResumeInput {
  readonly store: VersionStore;
  readonly reason: string;
  readonly author: string;
  readonly signal?: AbortSignal | undefined;
  readonly compute?: Compute;
}

/** Ends a rollback: nodes run the newest configuration again, with the newest endpoints. `resumed` is false when nothing was held. */
export async function resume(input: ResumeInput): Promise<{ readonly resumed: boolean; readonly head: Head }> {
  const { store, reason, author, signal, compute = computeFiles } = input;
  const { moved, head } = await store.move(async (seen) => {
    const before = presentHead(seen, store).head;
    if (before.pin === null) return null;
    const draft = ownDraft(await storedPresent(store, before, signal), compute);
    const common = { pin: null, author, reason };
    if (isSameAs(draft, await store.readManifest(before.newest, signal))) {
      return { ...common, version: null, target: before.newest, newest: before.newest };
    }
    return { ...common, version: versionDraft(draft, 'resume', author, null), target: 'version', newest: 'version' };
  }, signal);
  return { resumed: moved, head: presentHead(head, store).head };
}

export interface Status {
  readonly store: string;
  /** null: nothing was published yet. */
  readonly head: Head | null;
  readonly nodes: readonly FleetNode[];
}

/** What the head is, and what every node runs. */
export async function status(store: VersionStore, signal?: AbortSignal): Promise<Status> {
  const head = await store.readHead(signal);
  return { store: store.objects.url, head: head?.head ?? null, nodes: await readFleet(store.objects, signal) };
}

/**
 * The record of a version that must be there.
 * @throws HeadgateError `unknown-version` (stage `usage`) naming the versions that exist
 */
export async function existingVersion(store: VersionStore, number: number, signal?: AbortSignal): Promise<VersionRecord> {
  const record = await store.readVersion(number, signal);
  if (record !== null) return record;
  const latest = (await store.readHead(signal))?.head.latest.number;
  const range =
    latest === undefined ? 'nothing was published yet' : latest === 1 ? 'only version 1 exists' : `versions go from 1 to ${latest}`;
  throw new HeadgateError('unknown-version', 'usage', `there is no version ${number} in ${store.objects.url}: ${range}`);
}

/** What can be computed without a cluster: the newest configuration, and the endpoints of the version that was numbered last. */
async function storedPresent(store: VersionStore, head: Head, signal: AbortSignal | undefined): Promise<Present> {
  const [stored, endpoints] = await Promise.all([readConfiguration(store, head.newest, signal), readEndpoints(store, head.latest, signal)]);
  return { ...stored, ...endpoints };
}

function presentHead(head: HeadRevision | null, store: VersionStore): HeadRevision {
  if (head !== null) return head;
  throw new HeadgateError('no-versions', 'usage', `${store.objects.url} holds no version yet; \`headgate reconcile\` publishes the first`);
}

function versionDraft({ files, summary }: Draft, trigger: string, author: string, configurationOf: number | null): VersionDraft {
  return { files, summary, trigger, author, configurationOf };
}

function refOf({ number, manifest, generation, content, configuration }: VersionRef): VersionRef {
  return { number, manifest, generation, content, configuration };
}

function marksOf(number: number, head: Head | null): ListedVersion['marks'] {
  if (head === null) return [];
  return [
    ...(head.target.number === number ? (['target'] as const) : []),
    ...(head.newest.number === number && head.pin !== null ? (['newest'] as const) : []),
    ...(head.pin?.version === number ? (['pinned'] as const) : []),
  ];
}
