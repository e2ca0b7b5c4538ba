// The version store over any object store: the swap of the head, and what is read around it.

import { randomUUID } from 'node:crypto';
import type { Digest } from '../digest.ts';
import { errorMessage, HeadgateError } from '../error.ts';
import { type Head, headText, parseHead, type VersionRef } from '../head.ts';
import { configurationOf, contentOf, type FileEntry, type Manifest, manifestSchema } from '../manifest.ts';
import type { Etag, ObjectStore, StoredObject } from '../object-store/object-store.ts';
import { mapParallel } from '../parallel.ts';
import type { HeadMove, HeadRevision, VersionDraft, VersionRecord, VersionStore } from '../version-store.ts';
import { blobKey, readBlobBytes } from './blobs.ts';
import { completeTrail, readPastHead, readRecord, recordedNumbers, recordOf } from './trail.ts';
import { writeVersion } from './write-version.ts';

const HEAD = 'head.json';
/** Records read at once. */
const PARALLEL = 16;
const MANIFESTS_KEPT = 8;

export class ObjectVersionStore implements VersionStore {
  readonly id: string;
  readonly objects: ObjectStore;
  readonly #now: () => Date;
  readonly #attempts: number;
  /** Manifests read or written last, by digest: they never change. */
  readonly #manifests = new Map<Digest, Manifest>();
  /** The newest sequence whose trail this process knows to be complete. */
  #completed = 0;

  constructor(objects: ObjectStore, id: string, now: () => Date, attempts: number) {
    this.objects = objects;
    this.id = id;
    this.#now = now;
    this.#attempts = attempts;
  }

  async readHead(signal?: AbortSignal): Promise<HeadRevision | null> {
    const found = await this.objects.get(HEAD, signal);
    return found === null ? null : this.#revisionOf(found);
  }

  async readHeadIfChanged(etag: Etag, signal?: AbortSignal): Promise<HeadRevision | 'unchanged' | null> {
    const found = await this.objects.getIfChanged(HEAD, etag, signal);
    return found === null || found === 'unchanged' ? found : this.#revisionOf(found);
  }

  async move(
    decide: (seen: HeadRevision | null) => Promise<HeadMove | null>,
    signal?: AbortSignal,
  ): Promise<{ readonly moved: boolean; readonly head: HeadRevision | null }> {
    for (let attempt = 0; attempt < this.#attempts; attempt += 1) {
      signal?.throwIfAborted();
      const seen = await this.readHead(signal);
      const wanted = await decide(seen);
      if (wanted === null) return { moved: false, head: seen };
      const head = await this.#tryMove(seen, wanted, signal);
      if (head !== null) return { moved: true, head };
    }
    throw new HeadgateError(
      'head-contended',
      'publish',
      `${this.objects.url}: the head was moved by others ${this.#attempts} times in a row; try again, or stop whatever publishes that often`,
    );
  }

  async readManifest(ref: VersionRef, signal?: AbortSignal): Promise<Manifest> {
    const kept = this.#manifests.get(ref.manifest);
    if (kept !== undefined) return kept;
    const bytes = await readBlobBytes(this.objects, { digest: ref.manifest, generation: ref.generation }, null, signal);
    return this.#keep(ref.manifest, parseManifest(bytes, ref.number));
  }

  async readVersion(number: number, signal?: AbortSignal): Promise<VersionRecord | null> {
    return (await readRecord(this.objects, number, signal)) ?? (await this.#unrecorded(number, signal));
  }

  async *versions(signal?: AbortSignal): AsyncIterable<VersionRecord> {
    const head = await this.readHead(signal);
    const recorded = await recordedNumbers(this.objects, signal);
    const latest = head?.head.latest.number ?? 0;
    const numbers = latest > (recorded[0] ?? 0) ? [latest, ...recorded] : recorded;
    for (let start = 0; start < numbers.length; start += PARALLEL) {
      const records = await mapParallel(numbers.slice(start, start + PARALLEL), PARALLEL, (number) => this.readVersion(number, signal));
      yield* records.filter((record) => record !== null);
    }
  }

  async readBlob(entry: Pick<FileEntry, 'digest' | 'generation'>, signal?: AbortSignal): Promise<Uint8Array | null> {
    return (await this.objects.get(blobKey(entry), signal))?.bytes ?? null;
  }

  readFile(entry: FileEntry, signal?: AbortSignal): Promise<Uint8Array> {
    return readBlobBytes(this.objects, entry, entry.size, signal);
  }

  /** One swap. Null when another mover was first. */
  async #tryMove(seen: HeadRevision | null, wanted: HeadMove, signal: AbortSignal | undefined): Promise<HeadRevision | null> {
    if (seen !== null) await this.#completeTrail(seen, signal);
    const head = await this.#nextHead(seen, wanted, signal);
    const moved = await this.#swap(seen, head, signal);
    // The move is made; if its trail cannot be written now, the next mover writes it.
    if (moved !== null) await this.#completeTrail(moved, signal).catch(() => undefined);
    return moved;
  }

  async #completeTrail(revision: HeadRevision, signal: AbortSignal | undefined): Promise<void> {
    if (this.#completed >= revision.head.sequence) return;
    await completeTrail(this.objects, revision, await this.readManifest(revision.head.latest, signal), signal);
    this.#completed = revision.head.sequence;
  }

  async #nextHead(seen: HeadRevision | null, wanted: HeadMove, signal: AbortSignal | undefined): Promise<Head> {
    const before = seen?.head ?? null;
    const version = wanted.version === null ? null : await this.#numberVersion(before, wanted.version, wanted.reason, signal);
    const latest = version ?? before?.latest;
    if (latest === undefined)
      throw new HeadgateError('no-versions', 'publish', `${this.objects.url} holds no version yet: publish one first`);
    return {
      format: 1,
      store: this.id,
      sequence: (before?.sequence ?? 0) + 1,
      writer: randomUUID(),
      author: wanted.author,
      reason: wanted.reason,
      time: this.#now().toISOString(),
      target: wanted.target === 'version' ? latest : wanted.target,
      latest,
      newest: wanted.newest === 'version' ? latest : wanted.newest,
      pin: wanted.pin,
      rollout: null,
      gc: before?.gc ?? 0,
      signature: null,
    };
  }

  async #numberVersion(before: Head | null, draft: VersionDraft, reason: string, signal: AbortSignal | undefined): Promise<VersionRef> {
    const previous = before === null ? null : await this.readManifest(before.latest, signal);
    const generation = before?.gc ?? 0;
    const { manifest, digest } = await writeVersion(
      this.objects,
      draft,
      { previous, generation, created: this.#now().toISOString(), reason },
      signal,
    );
    this.#keep(digest, manifest);
    return {
      number: (before?.latest.number ?? 0) + 1,
      manifest: digest,
      generation,
      content: contentOf(manifest.files),
      configuration: configurationOf(manifest.files),
    };
  }

  async #swap(seen: HeadRevision | null, head: Head, signal: AbortSignal | undefined): Promise<HeadRevision | null> {
    const text = headText(head);
    const condition = seen === null ? 'absent' : { etag: seen.etag };
    try {
      const result = await this.objects.put(HEAD, Buffer.from(text), condition, signal);
      if (result.outcome === 'written') return { head, text, etag: result.etag };
    } catch (thrown) {
      const settled = await this.#settle(head, text).catch(() => {
        throw unsettled(this.objects.url, thrown);
      });
      if (settled === null) throw thrown;
      return settled;
    }
    return this.#settle(head, text, signal);
  }

  /**
   * Whether a swap was done whose answer was an error, or a conflict that may be with itself (a client that repeats a request whose answer
   * was lost): its writer is the head's or stands in the history. Null: it was not done.
   */
  async #settle(head: Head, text: string, signal?: AbortSignal): Promise<HeadRevision | null> {
    const present = await this.readHead(signal);
    if (present === null || present.head.sequence < head.sequence) return null;
    if (present.head.writer === head.writer) return present;
    const past = await readPastHead(this.objects, head.sequence, signal);
    // Moved on since: no tag is this head's any more.
    return past?.writer === head.writer ? { head, text, etag: '' } : null;
  }

  /** The latest version's record while its mover has not written it, or crashed before. */
  async #unrecorded(number: number, signal: AbortSignal | undefined): Promise<VersionRecord | null> {
    const head = (await this.readHead(signal))?.head;
    if (head?.latest.number !== number) return null;
    return recordOf(head.latest, head.sequence, await this.readManifest(head.latest, signal));
  }

  #revisionOf(found: StoredObject): HeadRevision {
    const text = Buffer.from(found.bytes).toString('utf8');
    const head = parseHead(text, `${this.objects.url}: head.json`);
    if (head.store === this.id) return { head, text, etag: found.etag };
    throw new HeadgateError(
      'foreign-head',
      'verify',
      `${this.objects.url}: head.json belongs to store ${head.store}, this one is ${this.id}; a store is copied whole or not at all`,
    );
  }

  #keep(digest: Digest, manifest: Manifest): Manifest {
    this.#manifests.set(digest, manifest);
    for (const oldest of this.#manifests.keys()) {
      if (this.#manifests.size <= MANIFESTS_KEPT) break;
      this.#manifests.delete(oldest);
    }
    return manifest;
  }
}

function parseManifest(bytes: Uint8Array, number: number): Manifest {
  try {
    return manifestSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
  } catch (cause) {
    throw new HeadgateError(
      'bad-manifest',
      'verify',
      `the manifest of version ${number} is not one that this release understands; upgrade`,
      {
        cause,
      },
    );
  }
}

function unsettled(url: string, thrown: unknown): unknown {
  if (!(thrown instanceof HeadgateError)) return thrown;
  const message = `the head may or may not have been moved (${errorMessage(thrown)}); look with \`headgate status\` and try again`;
  return new HeadgateError('move-unsettled', 'publish', `${url}: ${message}`, { cause: thrown });
}
