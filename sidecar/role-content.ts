// A role's content as its applier takes it: read from disk, checked, unsealed.

import type { Files } from '../shared/files.ts';
import type { NodeFile } from '../shared/manifest.ts';
import { mapParallel } from '../shared/parallel.ts';
import { isSealed, openSealed, type SealingKey } from '../shared/seal.ts';
import type { LastKnownGood } from './last-known-good.ts';

/** Files read from disk at once. */
const READ_TOGETHER = 64;

/**
 * @param paths those to read; default: all
 * @throws HeadgateError `blob-lost` (stage `keep`); `no-sealing-key`, `seal-broken` (stage `verify`)
 */
export async function readContent(
  memory: Pick<LastKnownGood, 'readBlob'>,
  files: Readonly<Record<string, NodeFile>>,
  sealingKeys: readonly SealingKey[],
  paths: readonly string[] = Object.keys(files),
): Promise<Files> {
  const wanted = paths.flatMap((path) => (files[path] === undefined ? [] : [[path, files[path]] as const]));
  const read = await mapParallel(wanted, READ_TOGETHER, async ([path, file]): Promise<[string, Uint8Array]> => {
    const bytes = await memory.readBlob(file);
    return [path, isSealed(bytes) ? openSealed(bytes, sealingKeys, path) : bytes];
  });
  return new Map(read);
}
