// One object of a directory store: a folder of revisions, `000000000001`, `000000000002`, ...; the highest is the object.
// What makes it safe between processes, without locks:
//
//   create   a folder that already holds revision 1 is renamed into place: rename(2) refuses a folder that is not empty,
//            and one of ours never is, so of many creators one wins
//   swap     the new bytes are link(2)ed to the revision after the one that was read: of many writers one wins
//   clean    old revisions are deleted in ascending order, never the highest
//
// A writer that was paused between reading revision n and linking n+1 could link an n+1 that was written and cleaned in
// the meantime. It finds out: deletion is ascending, so if n+1 was ever deleted, n is gone as well. A link counts only if
// revision n, the same bytes, is still there afterwards; else it is taken back. Nobody can have taken it for the object, since a
// higher revision was there all the time.

import { link, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { digestOf } from '../digest.ts';
import { syncFolder } from '../durable-file.ts';
import { errnoCode } from '../error.ts';
import type { Etag, StoredObject } from './object-store.ts';

export interface Revision extends StoredObject {
  readonly number: number;
}

/** Which old revisions stay: the last `count`, and all younger than `ageMs`. */
export interface Retention {
  readonly count: number;
  readonly ageMs: number;
}

const DIGITS = 12;
/** Editors and shared file systems leave names of their own (`000000000007~`, `.nfs0001`). */
const REVISION = /^\d{12}$/;

/** The object's highest revision; null when there is no such folder. */
export async function currentRevision(folder: string): Promise<Revision | null> {
  for (;;) {
    const number = (await revisionNumbers(folder)).at(-1);
    if (number === undefined) return null;
    const revision = await readRevision(folder, number);
    // Gone since it was listed: it was cleaned, so there are higher ones, or the object was deleted.
    if (revision !== null) return revision;
  }
}

/** Whether the object exists. A folder that was emptied by hand holds none: it can be created again. */
export async function hasRevisions(folder: string): Promise<boolean> {
  return (await revisionNumbers(folder)).length > 0;
}

/**
 * Creates the object from a draft, a folder on the same file system that `writeDraft` filled.
 * @returns false, with the draft left behind, when the object exists
 */
export async function createObject(folder: string, draft: string): Promise<boolean> {
  try {
    await rename(draft, folder);
    return true;
  } catch (thrown) {
    if (errnoCode(thrown) === 'ENOTEMPTY' || errnoCode(thrown) === 'EEXIST') return false;
    throw thrown;
  } finally {
    // Also when another created it: whoever builds on its being there must not lose it to a power cut.
    await syncFolder(dirname(folder));
  }
}

/**
 * Makes the draft the revision after `seen`.
 * @returns false when `seen` is no longer the highest
 */
export async function linkRevision(folder: string, draft: string, seen: Revision): Promise<boolean> {
  const next = revisionPath(folder, seen.number + 1);
  try {
    await link(revisionPath(draft, 1), next);
  } catch (thrown) {
    if (errnoCode(thrown) === 'EEXIST') return false;
    return absent(thrown, false);
  }
  if ((await readRevision(folder, seen.number))?.etag !== seen.etag) {
    await rm(next, { force: true });
    return false;
  }
  await syncFolder(folder);
  return true;
}

/** Writes bytes, durably, as revision 1 of a new folder. */
export async function writeDraft(draft: string, bytes: Uint8Array): Promise<void> {
  const file = await open(revisionPath(draft, 1), 'wx', 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
  await syncFolder(draft);
}

/** Deletes old revisions, the oldest first. */
export async function cleanRevisions(folder: string, keep: Retention, now: number): Promise<void> {
  const old = (await revisionNumbers(folder)).slice(0, -Math.max(1, keep.count));
  for (const number of old) {
    const path = revisionPath(folder, number);
    const written = await stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      (thrown: unknown) => absent(thrown, 0),
    );
    if (now - written < keep.ageMs) return;
    await rm(path, { force: true });
  }
}

/** The tag of a revision. The digest tells apart objects of one name that were deleted and created again. */
export function revisionEtag(number: number, bytes: Uint8Array): Etag {
  return `${number}-${digestOf(bytes).slice(0, 16)}`;
}

async function readRevision(folder: string, number: number): Promise<Revision | null> {
  try {
    const bytes = await readFile(revisionPath(folder, number));
    return { number, bytes, etag: revisionEtag(number, bytes) };
  } catch (thrown) {
    return absent(thrown, null);
  }
}

async function revisionNumbers(folder: string): Promise<number[]> {
  const names = await readdir(folder).catch((thrown: unknown) => absent(thrown, []));
  return names
    .filter((name) => REVISION.test(name))
    .map(Number)
    .sort((a, b) => a - b);
}

function revisionPath(folder: string, number: number): string {
  return join(folder, String(number).padStart(DIGITS, '0'));
}

function absent<T>(thrown: unknown, value: T): T {
  if (errnoCode(thrown) === 'ENOENT') return value;
  throw thrown;
}
