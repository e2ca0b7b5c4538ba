// The version store: versions, head and blobs on top of an object store. One write decides: the swap of head.json, which
// gives the next sequence and, to a new version, the next number. All else is written once, before it (blobs) or around it (the
// trail). This file says what the store does; version-store/ does it.

import type { Digest } from './digest.ts';
import type { Head, Pin, VersionRef } from './head.ts';
import type { FileEntry, Manifest, Summary } from './manifest.ts';
import type { Etag, ObjectStore } from './object-store/object-store.ts';
import { storeIdentity } from './version-store/identity.ts';
import { ObjectVersionStore } from './version-store/object-version-store.ts';

export interface HeadRevision {
  readonly head: Head;
  /** The bytes of head.json as stored: what nodes are sent. */
  readonly text: string;
  readonly etag: Etag;
}

/** A file of a version about to be written: its bytes, or a file that another version holds already. */
export type FileSource = string | Uint8Array | FileEntry;
export type FileSources = ReadonlyMap<string, FileSource>;

/** `versions/<number>.json` */
export interface VersionRecord extends VersionRef {
  /** The sequence of the swap that numbered it. */
  readonly sequence: number;
  readonly created: string;
  readonly trigger: string;
  readonly reason: string;
  readonly author: string;
  readonly configurationOf: number | null;
  readonly summary: Summary;
}

/** What a mover decides after it has seen the head. */
export interface HeadMove {
  /** A new version to number with this swap, if any. */
  readonly version: VersionDraft | null;
  /** `version`: the new one; else one that exists; Likewise `newest`. */
  readonly target: 'version' | VersionRef;
  readonly newest: 'version' | VersionRef;
  readonly pin: Pin | null;
  readonly author: string;
  readonly reason: string;
}

export interface VersionDraft {
  readonly files: FileSources;
  readonly trigger: string;
  readonly author: string;
  readonly configurationOf: number | null;
  readonly summary: Summary;
}

export interface VersionStore {
  readonly id: string;
  readonly objects: ObjectStore;
  readHead(signal?: AbortSignal): Promise<HeadRevision | null>;
  readHeadIfChanged(etag: Etag, signal?: AbortSignal): Promise<HeadRevision | 'unchanged' | null>;
  /**
   * Moves the head: reads it, asks `decide`, writes what the move needs, swaps; on a conflict reads again and asks again (at most `attempts`).
   * `decide` returning null means that there is nothing to do, and the head that it saw is returned.
   */
  move(
    decide: (seen: HeadRevision | null) => Promise<HeadMove | null>,
    signal?: AbortSignal,
  ): Promise<{ readonly moved: boolean; readonly head: HeadRevision | null }>;
  readManifest(ref: VersionRef, signal?: AbortSignal): Promise<Manifest>;
  /** The record of a version by its number; null when there is none. */
  readVersion(number: number, signal?: AbortSignal): Promise<VersionRecord | null>;
  /** All versions, newest first. */
  versions(signal?: AbortSignal): AsyncIterable<VersionRecord>;
  /** A blob as stored (gzip). Null when it is gone. */
  readBlob(entry: Pick<FileEntry, 'digest' | 'generation'>, signal?: AbortSignal): Promise<Uint8Array | null>;
  /** A file's bytes, uncompressed and checked against its digest. */
  readFile(entry: FileEntry, signal?: AbortSignal): Promise<Uint8Array>;
}

export interface VersionStoreOptions {
  /** The time that manifests and heads are dated with. */
  readonly now?: () => Date;
  /** How often `move` asks again after another mover was first. Default 32. */
  readonly attempts?: number;
}

const ATTEMPTS = 32;

/**
 * Opens the versions of an object store; its first use gives the store its id, after a probe of its conditional writes.
 * @throws HeadgateError stage `store`: `unfit-store` when it lacks them, and whatever the object store says
 */
export async function openVersionStore(
  objects: ObjectStore,
  options: VersionStoreOptions = {},
  signal?: AbortSignal,
): Promise<VersionStore> {
  const now = options.now ?? (() => new Date());
  return new ObjectVersionStore(objects, await storeIdentity(objects, now(), signal), now, options.attempts ?? ATTEMPTS);
}

export type { Digest };
