// A role's content as its applier takes it: read from disk, checked, unsealed.

import type { Files } from '../shared/files.ts';
import type { NodeFile } from '../shared/manifest.ts';
import { mapParallel } from '../shared/parallel.ts';
import { isSealed, openSealed, type SealingKey } from '../shared/seal.ts';
import type { LastKnownGood } from './last-known-good.ts';

/** Files read from disk at once. */
const READ_TOGETHER = 64;

/** @throws HeadgateError `blob-lost` (stage `keep`); `no-sealing-key`, `seal-broken` (stage `verify`) */
export async function readContent(
  memory: Pick<LastKnownGood, 'readBlob'>,
  files: Readonly<Record<string, NodeFile>>,
  sealingKeys: readonly SealingKey[],
): Promise<Files> {
  const read = await mapParallel(Object.entries(files), READ_TOGETHER, async ([path, file]): Promise<[string, Uint8Array]> => {
    const bytes = await memory.readBlob(file);
    return [path, isSealed(bytes) ? openSealed(bytes, sealingKeys, path) : bytes];
  });
  return new Map(read);
}
