// An object store in a folder: Headgate's embedded default, for one machine or a shared file system with working link(2)
// and rename(2). Every key is a folder of revisions, `head.json@/000000000007` (see revisions.ts); `@` is no letter of keys, so a
// key may also be a prefix of others. Drafts lie in `@tmp/`: a crash leaves at most those, and old ones go when the store is opened.

import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { syncFolder } from '../durable-file.ts';
import { errnoCode, errorMessage, HeadgateError } from '../error.ts';
import { isSafePath } from '../files.ts';
import { compareText } from '../json.ts';
import type { Etag, ObjectStore, StoredObject, WriteCondition, WriteResult } from './object-store.ts';
import {
  cleanRevisions,
  createObject,
  currentRevision,
  hasRevisions,
  linkRevision,
  type Retention,
  revisionEtag,
  writeDraft,
} from './revisions.ts';

export interface DirectoryOptions {
  /** False: it must be a store already. Default true. */
  readonly create?: boolean;
  /** Old revisions that stay. Default: the last 64, and those of the last 10 minutes. */
  readonly keep?: Retention;
}

const KEEP: Retention = { count: 64, ageMs: 600_000 };
const DRAFTS = '@tmp';
const DRAFT_AGE_MS = 3_600_000;
/** Cleaning lists the folder: once in so many swaps is enough. */
const SWAPS_PER_CLEANING = 16;

const CONFLICT: WriteResult = { outcome: 'conflict' };

/**
 * Opens a folder as an object store, with its first use making it (mode 0700).
 * @throws HeadgateError stage `store` naming the path when it cannot be used
 */
export async function openDirectoryStore(root: string, options: DirectoryOptions = {}): Promise<ObjectStore> {
  const drafts = join(root, DRAFTS);
  try {
    if (options.create === false) await mustBeStore(root, drafts);
    await makeFolder(drafts);
    await removeOldDrafts(drafts);
  } catch (thrown) {
    throw storeError('open', root, thrown);
  }
  return new DirectoryStore(root, options.keep ?? KEEP);
}

/** A folder without drafts is none of ours: nothing is put into it. */
async function mustBeStore(root: string, drafts: string): Promise<void> {
  await stat(root);
  await stat(drafts).catch((cause: unknown) => {
    if (errnoCode(cause) !== 'ENOENT') throw cause;
    throw new HeadgateError('no-such-store', 'store', `${root} is no store; is --store right? Publishing to it would make it one`, {
      cause,
    });
  });
}

class DirectoryStore implements ObjectStore {
  readonly url: string;
  readonly #root: string;
  readonly #keep: Retention;

  constructor(root: string, keep: Retention) {
    this.url = pathToFileURL(root).href;
    this.#root = root;
    this.#keep = keep;
  }

  get(key: string, signal?: AbortSignal): Promise<StoredObject | null> {
    return this.#reach('read', key, signal, async (folder) => {
      const revision = await currentRevision(folder);
      // An unmounted store must not look like an empty one.
      if (revision === null) await stat(join(this.#root, DRAFTS));
      return revision;
    });
  }

  async getIfChanged(key: string, etag: Etag, signal?: AbortSignal): Promise<StoredObject | 'unchanged' | null> {
    const found = await this.get(key, signal);
    return found?.etag === etag ? 'unchanged' : found;
  }

  put(key: string, bytes: Uint8Array, condition?: WriteCondition, signal?: AbortSignal): Promise<WriteResult> {
    return this.#reach('write', key, signal, async (folder) => {
      if (condition === 'absent') return this.#create(folder, bytes);
      if (condition !== undefined) return this.#swap(folder, bytes, condition.etag);
      for (;;) {
        const current = await currentRevision(folder);
        const result = current === null ? await this.#create(folder, bytes) : await this.#swap(folder, bytes, current.etag);
        if (result.outcome === 'written') return result;
      }
    });
  }

  delete(key: string, signal?: AbortSignal): Promise<void> {
    return this.#reach('delete', key, signal, async (folder) => {
      const draft = this.#draftPath();
      try {
        await rename(folder, draft);
      } catch (thrown) {
        if (errnoCode(thrown) === 'ENOENT') return;
        throw thrown;
      }
      await syncFolder(dirname(folder));
      await rm(draft, { recursive: true, force: true });
    });
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    const parent = prefix.slice(0, prefix.lastIndexOf('/') + 1);
    if (parent !== '' && !isSafePath(parent.slice(0, -1))) throw badKey(prefix);
    try {
      yield* this.#keysBelow(parent, prefix, signal);
    } catch (thrown) {
      throw storeError('list', join(this.#root, parent), thrown);
    }
  }

  async #create(folder: string, bytes: Uint8Array): Promise<WriteResult> {
    // A blob that is there already is spared the draft. Its creator may not have come to this yet, and a manifest will rely on it.
    if (await hasRevisions(folder)) {
      await syncFolder(dirname(folder));
      return CONFLICT;
    }
    return this.#withDraft(bytes, async (draft) => {
      await makeFolder(dirname(folder));
      const created = await createObject(folder, draft);
      return created ? { outcome: 'written', etag: revisionEtag(1, bytes) } : CONFLICT;
    });
  }

  async #swap(folder: string, bytes: Uint8Array, expected: Etag): Promise<WriteResult> {
    const seen = await currentRevision(folder);
    if (seen?.etag !== expected) return CONFLICT;
    const linked = await this.#withDraft(bytes, (draft) => linkRevision(folder, draft, seen));
    if (!linked) return CONFLICT;
    const number = seen.number + 1;
    // The write stands whatever becomes of the cleaning; the next one tries again.
    if (number % SWAPS_PER_CLEANING === 0) await cleanRevisions(folder, this.#keep, Date.now()).catch(() => undefined);
    return { outcome: 'written', etag: revisionEtag(number, bytes) };
  }

  async #withDraft<T>(bytes: Uint8Array, use: (draft: string) => Promise<T>): Promise<T> {
    const draft = this.#draftPath();
    await mkdir(draft, { mode: 0o700 });
    try {
      await writeDraft(draft, bytes);
      return await use(draft);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
  }

  async *#keysBelow(parent: string, prefix: string, signal: AbortSignal | undefined): AsyncIterable<string> {
    signal?.throwIfAborted();
    // `a@` is the key `a`; anything else of ours is a folder of keys, `a/`. In this order the walk yields whole keys ascending.
    const names = (await readFolder(join(this.#root, parent)))
      .map((name) => `${parent}${name.endsWith('@') ? name.slice(0, -1) : `${name}/`}`)
      .filter((name) => isSafePath(name.replace(/\/$/, '')) && (name.startsWith(prefix) || prefix.startsWith(name)))
      .sort(compareText);
    for (const name of names) {
      if (name.endsWith('/')) yield* this.#keysBelow(name, prefix, signal);
      else if (name.startsWith(prefix)) yield name;
    }
  }

  #draftPath(): string {
    return join(this.#root, DRAFTS, randomBytes(9).toString('base64url'));
  }

  async #reach<T>(action: string, key: string, signal: AbortSignal | undefined, use: (folder: string) => Promise<T>): Promise<T> {
    signal?.throwIfAborted();
    if (!isSafePath(key)) throw badKey(key);
    const folder = join(this.#root, `${key}@`);
    try {
      return await use(folder);
    } catch (thrown) {
      throw storeError(action, folder, thrown);
    }
  }
}

/** Makes a folder and its parents, durably. (Node's own `recursive` never returns where mkdir(2) says ENOENT for good, as below /proc.) */
async function makeFolder(path: string): Promise<void> {
  try {
    await makeOneFolder(path);
  } catch (thrown) {
    if (errnoCode(thrown) !== 'ENOENT' || dirname(path) === path) throw thrown;
    await makeFolder(dirname(path));
    await makeOneFolder(path);
  }
}

async function makeOneFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (thrown) {
    if (errnoCode(thrown) !== 'EEXIST') throw thrown;
    return;
  }
  await syncFolder(dirname(path));
}

async function removeOldDrafts(drafts: string): Promise<void> {
  for (const name of await readdir(drafts)) {
    const path = join(drafts, name);
    const written = await stat(path).catch(() => null);
    if (written !== null && Date.now() - written.mtimeMs > DRAFT_AGE_MS) await rm(path, { recursive: true, force: true });
  }
}

async function readFolder(path: string): Promise<string[]> {
  try {
    return (await readdir(path, { withFileTypes: true })).filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch (thrown) {
    if (errnoCode(thrown) === 'ENOENT') return [];
    throw thrown;
  }
}

function badKey(key: string): HeadgateError {
  return new HeadgateError('bad-key', 'store', `${JSON.stringify(key)} is not a key: expected segments of letters, digits and . _ : -`);
}

const ADVICE: Readonly<Record<string, readonly [code: string, advice: string]>> = {
  EACCES: ['store-denied', 'permission denied: give the user that runs Headgate read and write access, or run as the user that owns it'],
  EPERM: ['store-denied', 'not permitted: give the user that runs Headgate read and write access, or run as the user that owns it'],
  EROFS: ['store-denied', 'the file system is read-only: mount it writable, or name another folder with --store'],
  ENOSPC: ['store-full', 'no space left: free some, or move the store to a larger disk'],
  EDQUOT: ['store-full', 'the quota is used up: raise it, or move the store'],
  ENOENT: ['store-missing', 'the folder is not there: is it mounted, and is --store right?'],
  ENOTDIR: ['store-failed', 'a file stands where a folder is expected: is --store right?'],
};

function storeError(action: string, path: string, thrown: unknown): unknown {
  const errno = errnoCode(thrown);
  if (thrown instanceof HeadgateError || errno === undefined || errno === 'ABORT_ERR') return thrown;
  const [code, advice] = ADVICE[errno] ?? ['store-failed', errorMessage(thrown)];
  return new HeadgateError(code, 'store', `cannot ${action} ${path}: ${advice}`, { cause: thrown });
}
