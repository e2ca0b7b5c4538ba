// Where a replica's streams learn of new heads: it asks the store every second whether the head changed, at once on a local
// notice, and keeps what is offered ready: each role's file list, and the last few lists as bases for deltas.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Digest } from '../shared/digest.ts';
import { errorMessage } from '../shared/error.ts';
import type { Logger } from '../shared/logger.ts';
import { type FileEntry, type NodeFile, roleFiles } from '../shared/manifest.ts';
import type { Etag } from '../shared/object-store/object-store.ts';
import { type PerRole, type Role, ROLES } from '../shared/role.ts';
import type { HeadRevision, VersionStore } from '../shared/version-store.ts';

export type RoleFiles = Readonly<Record<string, NodeFile>>;

/** A head and what nodes may fetch of it. */
export interface Offering {
  readonly revision: HeadRevision;
  readonly lists: PerRole<RoleFiles>;
  /** The blobs of each role, and the generation that each was written under. */
  readonly blobs: PerRole<ReadonlyMap<Digest, number>>;
}

export interface HeadSourceOptions {
  readonly store: Pick<VersionStore, 'readHead' | 'readHeadIfChanged' | 'readManifest'>;
  readonly logger: Logger;
  /** Milliseconds between looks; default 1,000. */
  readonly pollMs?: number;
}

const POLL_MS = 1_000;
/** Longest wait between looks while the store does not answer. */
const POLL_MOST_MS = 10_000;
/** Lists of each role that may be bases. */
const LISTS_KEPT = 8;

export class HeadSource {
  readonly #options: HeadSourceOptions;
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  readonly #lists: PerRole<Map<Digest, RoleFiles>> = { router: new Map(), 'service-proxy': new Map() };
  #current: Offering | null = null;
  #etag: Etag | null = null;
  #problem: string | null = null;
  #alarm = new AbortController();
  #noticed = false;
  #ended: Promise<void> = Promise.resolve();

  constructor(options: HeadSourceOptions) {
    this.#options = options;
  }

  /** What is offered now; null while the store has no head, or none was read yet. */
  get current(): Offering | null {
    return this.#current;
  }

  /** Why the head cannot be read now; null when it can. */
  get problem(): string | null {
    return this.#problem;
  }

  start(): void {
    this.#ended = this.#run();
  }

  /** The head has probably moved: looks at once. */
  notice(): void {
    this.#noticed = true;
    this.#alarm.abort();
  }

  /** Calls the listener after each change of `current`; returns how to stop that. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A role's file list of one of the last heads, by its content digest. */
  listOf(role: Role, content: Digest): RoleFiles | null {
    return this.#lists[role].get(content) ?? null;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#alarm.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { logger, pollMs = POLL_MS } = this.#options;
    let failures = 0;
    while (!this.#closing.signal.aborted) {
      this.#alarm = new AbortController();
      this.#noticed = false;
      try {
        await this.#look();
        failures = 0;
        this.#problem = null;
      } catch (thrown) {
        if (this.#closing.signal.aborted) return;
        failures += 1;
        const problem = errorMessage(thrown);
        if (problem !== this.#problem) logger.error({ error: problem }, 'the head cannot be read');
        this.#problem = problem;
      }
      if (this.#noticed) continue;
      const wait = Math.min(pollMs * 2 ** Math.min(failures, 10), Math.max(pollMs, POLL_MOST_MS));
      await sleep(wait, undefined, { signal: this.#alarm.signal }).catch(() => undefined);
    }
  }

  async #look(): Promise<void> {
    const { store, logger } = this.#options;
    const { signal } = this.#closing;
    const read = this.#etag === null ? await store.readHead(signal) : await store.readHeadIfChanged(this.#etag, signal);
    if (read === 'unchanged' || read === null) return;
    const manifest = await store.readManifest(read.head.target, signal);
    this.#current = offeringOf(read, manifest.files);
    this.#etag = read.etag;
    this.#keepLists(this.#current);
    logger.debug({ sequence: read.head.sequence, version: read.head.target.number }, 'the head moved');
    for (const listener of this.#listeners) listener();
  }

  #keepLists({ revision, lists }: Offering): void {
    for (const role of ROLES) {
      const kept = this.#lists[role];
      const content = revision.head.target.content[role];
      kept.delete(content);
      kept.set(content, lists[role]);
      for (const oldest of [...kept.keys()].slice(0, -LISTS_KEPT)) kept.delete(oldest);
    }
  }
}

function offeringOf(revision: HeadRevision, files: Readonly<Record<string, FileEntry>>): Offering {
  const perRole = { router: roleFiles(files, 'router'), 'service-proxy': roleFiles(files, 'service-proxy') };
  const list = (role: Role): RoleFiles =>
    Object.fromEntries(Object.entries(perRole[role]).map(([path, { digest, size }]) => [path, { digest, size }]));
  const blobs = (role: Role): ReadonlyMap<Digest, number> =>
    new Map(Object.values(perRole[role]).map(({ digest, generation }) => [digest, generation]));
  return {
    revision,
    lists: { router: list('router'), 'service-proxy': list('service-proxy') },
    blobs: { router: blobs('router'), 'service-proxy': blobs('service-proxy') },
  };
}
