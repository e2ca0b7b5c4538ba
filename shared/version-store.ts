// The version store: versions, head and blobs on top of an object store. See `openVersionStore`.

import type { Digest } from './digest.ts';
import type { Head, Pin, VersionRef } from './head.ts';
import type { FileEntry, Manifest, Summary } from './manifest.ts';
import type { Etag, ObjectStore } from './object-store/object-store.ts';

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

export type { Digest };
