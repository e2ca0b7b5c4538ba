// Watches a folder of manifests. The kernel's notices say only "look again"; what is reported is a difference between two
// listings, so editors that write by renaming, new folders and the swapped links of a mounted ConfigMap need no case of
// their own. A slow look finds what no notice told of (network file systems, too few inotify watches).

import { type FSWatcher, watch } from 'node:fs';
import { HeadgateError } from '../../shared/error.ts';
import { type Folder, type ManifestFiles, isManifestName, listManifestFiles } from './manifest-files.ts';

export interface DirectoryWatch {
  close(): void;
}

/** ms without a notice before a change is reported: an editor's several steps are one change. */
const QUIET = 100;
/** ms after which a change is reported though notices keep coming. */
const LONGEST_DELAY = 1_000;
/** ms between looks without a notice. */
const LOOK_EVERY = 2_000;

/**
 * Calls `onChange` after manifests at a path have changed, come or gone since this call, so watch first and read after. A
 * path that cannot be listed any more is a change too: reading it says why.
 * @throws HeadgateError stage `read-cluster` when the path cannot be listed now, `usage` for standard input
 */
export function watchDirectory(path: string, onChange: () => void): DirectoryWatch {
  if (path === '-') throw new HeadgateError('unwatchable', 'usage', 'standard input cannot be watched; name a file or a folder');
  const watchers = new Map<string, FSWatcher>();
  const first = listManifestFiles(path);
  let seen = marksOf(first);
  let written = false;
  let waitingSince: number | undefined;
  let timer: NodeJS.Timeout | undefined;

  const notice = (name: string | null): void => {
    // Two writes within one tick of the file system's clock leave the same marks: a notice about a manifest counts by itself.
    written ||= name !== null && isManifestName(name);
    waitingSince ??= performance.now();
    clearTimeout(timer);
    timer = setTimeout(look, Math.min(QUIET, Math.max(0, waitingSince + LONGEST_DELAY - performance.now())));
  };
  const look = (): void => {
    const listing = tryList(path);
    if (typeof listing !== 'string') follow(watchers, listing.folders, notice);
    const marks = typeof listing === 'string' ? listing : marksOf(listing);
    const changed = written || marks !== seen;
    seen = marks;
    written = false;
    waitingSince = undefined;
    if (changed) onChange();
  };

  follow(watchers, first.folders, notice);
  const regular = setInterval(look, LOOK_EVERY);
  return {
    close() {
      clearInterval(regular);
      clearTimeout(timer);
      for (const watcher of watchers.values()) watcher.close();
      watchers.clear();
    },
  };
}

/** The listing, or why there is none. */
function tryList(path: string): ManifestFiles | string {
  try {
    return listManifestFiles(path);
  } catch (thrown) {
    return thrown instanceof HeadgateError ? thrown.message : String(thrown);
  }
}

function marksOf(listing: ManifestFiles): string {
  return listing.files.map((file) => `${file.path}\0${file.mark}\n`).join('');
}

/** Watches these folders and no others. One that was replaced under its path is another folder. */
function follow(watchers: Map<string, FSWatcher>, folders: readonly Folder[], notice: (name: string | null) => void): void {
  const wanted = new Map(folders.map((folder) => [`${folder.path}\0${folder.identity}`, folder.path]));
  for (const [key, watcher] of watchers) {
    if (wanted.has(key)) continue;
    watcher.close();
    watchers.delete(key);
  }
  for (const [key, path] of wanted) {
    const watcher = watchers.has(key) ? null : tryWatch(path, notice);
    if (watcher === null) continue;
    watchers.set(key, watcher);
    watcher.on('error', () => watcher.close());
  }
}

/** Null when the kernel has no watch for us, or the folder has gone: the regular look finds its changes. */
function tryWatch(path: string, notice: (name: string | null) => void): FSWatcher | null {
  try {
    return watch(path, (_event, name) => notice(name));
  } catch {
    return null;
  }
}
