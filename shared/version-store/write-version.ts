// Writing a version: its blobs, then the manifest that names them. All of it but the number, which the head's swap gives.

import { type Digest, digestOf } from '../digest.ts';
import { canonicalJson } from '../json.ts';
import type { FileEntry, Manifest } from '../manifest.ts';
import type { ObjectStore } from '../object-store/object-store.ts';
import { mapParallel } from '../parallel.ts';
import type { FileSources, VersionDraft } from '../version-store.ts';
import { writeBlob } from './blobs.ts';

/** Uploads under way at once. */
const PARALLEL = 16;

export interface WritingContext {
  /** The latest version's manifest. What it names is not uploaded again: garbage collection never takes that. */
  readonly previous: Manifest | null;
  /** The folder of blobs to write under. */
  readonly generation: number;
  /** ISO 8601, UTC. */
  readonly created: string;
  readonly reason: string;
}

/** Writes what the store lacks of a draft; the manifest's digest names it. */
export async function writeVersion(
  objects: ObjectStore,
  draft: VersionDraft,
  { previous, generation, created, reason }: WritingContext,
  signal?: AbortSignal,
): Promise<{ readonly manifest: Manifest; readonly digest: Digest }> {
  const { files, unstored } = nameFiles(draft.files, entriesByDigest(previous), generation);
  await mapParallel([...unstored], PARALLEL, ([digest, bytes]) => writeBlob(objects, { digest, generation }, bytes, signal));
  const { trigger, author, configurationOf, summary } = draft;
  const manifest: Manifest = { format: 1, created, trigger, reason, author, configurationOf, summary, files };
  const bytes = Buffer.from(`${canonicalJson(manifest)}\n`);
  const digest = digestOf(bytes);
  await writeBlob(objects, { digest, generation }, bytes, signal);
  return { manifest, digest };
}

interface NamedFiles {
  readonly files: Readonly<Record<string, FileEntry>>;
  /** What no stored blob holds. */
  readonly unstored: ReadonlyMap<Digest, Uint8Array>;
}

function nameFiles(sources: FileSources, stored: ReadonlyMap<Digest, FileEntry>, generation: number): NamedFiles {
  const files: Record<string, FileEntry> = {};
  const unstored = new Map<Digest, Uint8Array>();
  for (const [path, source] of sources) {
    if (typeof source === 'object' && 'digest' in source) {
      files[path] = source;
      continue;
    }
    const bytes = typeof source === 'string' ? Buffer.from(source) : source;
    const digest = digestOf(bytes);
    const known = stored.get(digest);
    if (known === undefined) unstored.set(digest, bytes);
    files[path] = known ?? { digest, size: bytes.length, generation };
  }
  return { files, unstored };
}

function entriesByDigest(manifest: Manifest | null): Map<Digest, FileEntry> {
  return new Map(Object.values(manifest?.files ?? {}).map((entry) => [entry.digest, entry]));
}
