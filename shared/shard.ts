// Entries spread over at most 256 files, so that a change sends only the file it touches. Each entry is one line of
// JSON: text diffs and `show` stay readable.

import { shardOf } from './digest.ts';
import { canonicalJson, compareText } from './json.ts';

/** `folder/<xx>` -> a JSON array of the shard's entries in the order of their keys, one a line. Only shards in use exist. */
export function shardEntries<T>(folder: string, entries: Iterable<T>, keyOf: (entry: T) => string): Map<string, string> {
  const shards = new Map<string, { key: string; line: string }[]>();
  for (const entry of entries) {
    const key = keyOf(entry);
    const path = `${folder}/${shardOf(key)}`;
    const lines = shards.get(path);
    const line = { key, line: canonicalJson(entry) };
    if (lines === undefined) shards.set(path, [line]);
    else lines.push(line);
  }
  return new Map(
    [...shards]
      .sort(([a], [b]) => compareText(a, b))
      .map(([path, lines]) => [path, shardText(lines.sort((a, b) => compareText(a.key, b.key)))]),
  );
}

function shardText(lines: readonly { readonly line: string }[]): string {
  return `[\n${lines.map(({ line }) => line).join(',\n')}\n]\n`;
}

/**
 * The entries of every shard below a folder, in the order of the paths. They are what `shardEntries` wrote: the caller knows the type from
 * the folder, and their digests were checked when they were read.
 */
export function readShards<T>(files: ReadonlyMap<string, string | Uint8Array>, folder: string): T[] {
  const paths = [...files.keys()].filter((path) => path.startsWith(`${folder}/`)).sort(compareText);
  return paths.flatMap((path): T[] => {
    const content = files.get(path) ?? '[]';
    return JSON.parse(typeof content === 'string' ? content : Buffer.from(content).toString('utf8'));
  });
}
