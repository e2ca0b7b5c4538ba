// The manifest files of a folder: `.yaml`, `.yml` and `.json` at any depth, in order. Hidden entries are skipped (among
// them the `..data` of a mounted ConfigMap, whose files are reached through their visible links); a folder that links
// lead to twice is read once, so loops end.

import { type BigIntStats, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { HeadgateError, errnoCode, errorMessage } from '../../shared/error.ts';
import { compareText } from '../../shared/json.ts';

export interface ManifestFile {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** Differs when the content may: which file it is, its size, when it was changed. */
  readonly mark: string;
}

export interface Folder {
  readonly path: string;
  /** Which folder stands there: another one may come to. */
  readonly identity: string;
}

export interface ManifestFiles {
  readonly files: readonly ManifestFile[];
  /** The folders in which a change may add, remove or replace a file. */
  readonly folders: readonly Folder[];
}

/** Whether a file in a folder is taken for a manifest by its name. */
export function isManifestName(name: string): boolean {
  return /\.(?:ya?ml|json)$/.test(name) && !name.startsWith('.');
}

/**
 * Lists a folder, or the one file at this path.
 * @param others files and folders that hold no manifests though they may lie in the folder; they need not exist
 * @throws HeadgateError `missing-manifests` or `unreadable-manifests` (stage `read-cluster`) when any of it cannot be listed
 */
export function listManifestFiles(path: string, others: readonly string[] = []): ManifestFiles {
  const stats = stat(path);
  if (!stats.isDirectory()) return { files: [fileOf(path, stats)], folders: [folderAt(dirname(path), stat(dirname(path)))] };
  const skipped = new Set(others.flatMap((other) => identityAt(other) ?? []));
  const files: ManifestFile[] = [];
  const folders = new Map<string, Folder>([[identityOf(stats), folderAt(path, stats)]]);
  // The map grows while it is walked: a folder that was found is walked in its turn, once.
  for (const folder of folders.values()) {
    for (const name of namesIn(folder.path)) {
      const entry = join(folder.path, name);
      const entryStats = stat(entry);
      const identity = identityOf(entryStats);
      if (skipped.has(identity)) continue;
      if (entryStats.isFile() && isManifestName(name)) files.push(fileOf(entry, entryStats));
      if (entryStats.isDirectory() && !folders.has(identity)) folders.set(identity, folderAt(entry, entryStats));
    }
  }
  return { files: files.sort((a, b) => compareText(a.path, b.path)), folders: [...folders.values()] };
}

/** Visible manifests, folders, and links, which may lead to either. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => !entry.name.startsWith('.') && (entry.isDirectory() || entry.isSymbolicLink() || isManifestName(entry.name)))
      .map((entry) => entry.name)
      .sort(compareText);
  } catch (cause) {
    throw unreadable(folder, cause);
  }
}

function stat(path: string): BigIntStats {
  try {
    return statSync(path, { bigint: true });
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/** null: nothing is there. */
function identityAt(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : identityOf(stats);
}

function identityOf(stats: BigIntStats): string {
  return `${stats.dev}:${stats.ino}`;
}

function folderAt(path: string, stats: BigIntStats): Folder {
  return { path, identity: identityOf(stats) };
}

function fileOf(path: string, stats: BigIntStats): ManifestFile {
  return { path, size: Number(stats.size), mark: `${identityOf(stats)}:${stats.size}:${stats.mtimeNs}:${stats.ctimeNs}` };
}

/** The error for a file or folder of manifests that cannot be read. */
export function unreadable(path: string, cause: unknown): HeadgateError {
  const missing = errnoCode(cause) === 'ENOENT';
  const message = missing
    ? `${path}: no such file or folder; name a manifest, a folder of manifests, or - for standard input`
    : `${path}: cannot be read (${errnoCode(cause) ?? errorMessage(cause)})`;
  return new HeadgateError(missing ? 'missing-manifests' : 'unreadable-manifests', 'read-cluster', message, { cause });
}
