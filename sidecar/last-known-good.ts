// What a node keeps on disk, so that it comes up with nothing reachable: the content that each role should run (`wanted`)
// and did run (`applied`), the blobs of both, what was refused, and the highest sequence seen.
//
//   STATE/seen.json           the store's id and the highest sequence, on disk before anything of that head is fetched
//   STATE/roles/<role>.json   wanted, applied, refused
//   STATE/blobs/<digest>      gzip, as received

import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { type Digest, isDigest } from '../shared/digest.ts';
import { replaceFile, replaceFileDurably, syncFolder } from '../shared/durable-file.ts';
import { errnoCode, HeadgateError } from '../shared/error.ts';
import { isSafePath } from '../shared/files.ts';
import { type Head, headSchema } from '../shared/head.ts';
import { canonicalJson } from '../shared/json.ts';
import type { NodeFile } from '../shared/manifest.ts';
import { type Result, resultSchema } from '../shared/protocol.ts';
import type { PerRole, Role } from '../shared/role.ts';
import { inflateBlob } from './blob.ts';

/** A role's complete file list and the head that named it. */
export interface KeptContent {
  readonly head: Head;
  readonly files: Readonly<Record<string, NodeFile>>;
}

/** Content that the tool judged bad, and the head under which that was. */
export interface RefusedContent {
  readonly head: Head;
  readonly result: Result;
}

/** What is remembered of one role. */
export interface RoleRecord {
  readonly wanted: KeptContent | null;
  readonly applied: KeptContent | null;
  /** The newest last. */
  readonly refused: readonly RefusedContent[];
}

/** The newest head that the node has seen, of the one store that it follows. */
export interface Seen {
  readonly store: string;
  readonly sequence: number;
}

const keptSchema = z.object({
  head: headSchema,
  files: z.record(z.string().refine(isSafePath), z.object({ digest: z.string().refine(isDigest), size: z.number().int().nonnegative() })),
});

const recordSchema: z.ZodType<RoleRecord> = z.object({
  wanted: keptSchema.nullable(),
  applied: keptSchema.nullable(),
  refused: z.array(z.object({ head: headSchema, result: resultSchema })),
});

const seenSchema: z.ZodType<Seen> = z.object({ store: z.string(), sequence: z.number().int().nonnegative() });

const EMPTY: RoleRecord = { wanted: null, applied: null, refused: [] };

export class LastKnownGood {
  readonly #folder: string;
  readonly #blobs: Set<Digest>;
  readonly #records: { [role in Role]: RoleRecord };
  #seen: Seen | null;
  /** Records are written one after the other, so that the newest is on disk last. */
  #writing: Promise<void> = Promise.resolve();

  private constructor(folder: string, seen: Seen | null, records: PerRole<RoleRecord>, blobs: Set<Digest>) {
    this.#folder = folder;
    this.#seen = seen;
    this.#records = { ...records };
    this.#blobs = blobs;
  }

  /**
   * Reads what the state folder holds; makes its folders when they are absent.
   * @throws HeadgateError `bad-state` (stage `keep`) when a file was damaged
   */
  static async open(folder: string): Promise<LastKnownGood> {
    await Promise.all(['roles', 'blobs'].map((name) => mkdir(join(folder, name), { recursive: true, mode: 0o700 })));
    const record = (role: Role) => readJson(join(folder, 'roles', `${role}.json`), recordSchema);
    const [seen, router, proxy, names] = await Promise.all([
      readJson(join(folder, 'seen.json'), seenSchema),
      record('router'),
      record('service-proxy'),
      readdir(join(folder, 'blobs')),
    ]);
    await Promise.all(['.', 'roles', 'blobs'].map((name) => removeHalfWritten(join(folder, name))));
    return new LastKnownGood(folder, seen, { router: router ?? EMPTY, 'service-proxy': proxy ?? EMPTY }, new Set(names.filter(isDigest)));
  }

  get seen(): Seen | null {
    return this.#seen;
  }

  record(role: Role): RoleRecord {
    return this.#records[role];
  }

  hasBlob(digestOfBlob: Digest): boolean {
    return this.#blobs.has(digestOfBlob);
  }

  /** Durable when it resolves. */
  async keepSeen(seen: Seen): Promise<void> {
    await replaceFileDurably(join(this.#folder, 'seen.json'), canonicalJson(seen));
    this.#seen = seen;
  }

  /** Keeps a blob, as stored. Its name is durable only with the next `keepRecord`. */
  async keepBlob(digestOfBlob: Digest, stored: Uint8Array): Promise<void> {
    await replaceFile(this.#blobPath(digestOfBlob), stored);
    this.#blobs.add(digestOfBlob);
  }

  /** Changes what is remembered of a role; durable, blobs included, when it resolves. */
  async keepRecord(role: Role, change: Partial<RoleRecord>): Promise<void> {
    this.#records[role] = { ...this.#records[role], ...change };
    const written = this.#writing.then(async () => {
      await syncFolder(join(this.#folder, 'blobs'));
      await replaceFileDurably(join(this.#folder, 'roles', `${role}.json`), canonicalJson(this.#records[role]));
    });
    this.#writing = written.catch(() => undefined);
    await written;
  }

  /**
   * A file's bytes, uncompressed.
   * @throws HeadgateError `blob-lost` (stage `keep`) when the blob is absent or damaged; it is then no longer held
   */
  async readBlob(file: NodeFile): Promise<Buffer> {
    try {
      return await inflateBlob(file, await readFile(this.#blobPath(file.digest)));
    } catch (cause) {
      this.#blobs.delete(file.digest);
      throw new HeadgateError('blob-lost', 'keep', `blob ${file.digest} on disk is absent or damaged; it will be fetched again`, { cause });
    }
  }

  /** Removes the blobs that no role's content, nor `alsoKeep`, names. */
  async sweep(alsoKeep: Iterable<Digest>): Promise<void> {
    const inUse = new Set(alsoKeep);
    for (const { wanted, applied } of Object.values(this.#records)) {
      for (const kept of [wanted, applied]) {
        for (const file of Object.values(kept?.files ?? {})) inUse.add(file.digest);
      }
    }
    const unused = [...this.#blobs].filter((held) => !inUse.has(held));
    for (const held of unused) this.#blobs.delete(held);
    await Promise.all(unused.map((held) => rm(this.#blobPath(held), { force: true })));
  }

  #blobPath(digestOfBlob: Digest): string {
    return join(this.#folder, 'blobs', digestOfBlob);
  }
}

/** A process that was killed may have left temporary files: see `replaceFile`. */
async function removeHalfWritten(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => name.startsWith('.') && name.endsWith('.tmp'));
  await Promise.all(names.map((name) => rm(join(folder, name), { force: true })));
}

async function readJson<T>(path: string, schema: z.ZodType<T>): Promise<T | null> {
  try {
    return schema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (cause) {
    if (errnoCode(cause) === 'ENOENT') return null;
    throw new HeadgateError('bad-state', 'keep', `${path} is damaged; remove it, and the sidecar fetches its content anew`, { cause });
  }
}
