// A version store in a temporary folder, and object stores that fail where a test wants them to.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { HeadgateError } from '../../../shared/error.ts';
import { openDirectoryStore } from '../../../shared/object-store/directory.ts';
import type { ObjectStore } from '../../../shared/object-store/object-store.ts';
import { openVersionStore, type VersionStore } from '../../../shared/version-store.ts';

/** Removed when the test ends. */
export async function scratchObjects(t: TestContext): Promise<ObjectStore> {
  const folder = await mkdtemp(join(tmpdir(), `hg-versions-${process.pid}-`));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return openDirectoryStore(folder);
}

export async function scratchStore(t: TestContext): Promise<VersionStore> {
  return openVersionStore(await scratchObjects(t));
}

export interface Fault {
  /** The number of the write, from 1, that fails; 0: none does. */
  readonly at: number;
  /** `before`: nothing is written. `after`: it is written and the answer is lost. */
  readonly when: 'before' | 'after';
  /** `error`: the call throws. `conflict`: a client that repeated the request reports a conflict with itself. Default `error`. */
  readonly answer?: 'error' | 'conflict';
  /** True: so does every call after it, as for a process that died. */
  readonly dead?: boolean;
}

export interface FaultyObjects extends ObjectStore {
  /** Writes that were asked for. */
  readonly writes: readonly string[];
}

export function faultyObjects(objects: ObjectStore, fault: Fault): FaultyObjects {
  const writes: string[] = [];
  let died = false;
  const lost = (): HeadgateError => new HeadgateError('store-lost', 'store', 'the answer was lost');
  const alive = (): void => {
    if (died) throw lost();
  };
  return {
    url: objects.url,
    writes,
    async get(key, signal) {
      alive();
      return objects.get(key, signal);
    },
    async getIfChanged(key, etag, signal) {
      alive();
      return objects.getIfChanged(key, etag, signal);
    },
    async put(key, bytes, condition, signal) {
      alive();
      writes.push(key);
      if (writes.length !== fault.at) return objects.put(key, bytes, condition, signal);
      died = fault.dead === true;
      if (fault.when === 'after') await objects.put(key, bytes, condition, signal);
      if (fault.answer === 'conflict') return { outcome: 'conflict' };
      throw lost();
    },
    async delete(key, signal) {
      alive();
      return objects.delete(key, signal);
    },
    list(prefix, signal) {
      alive();
      return objects.list(prefix, signal);
    },
  };
}
