// Writing files so that a power cut or a kill leaves either the old bytes or the new ones, never a part.

import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/**
 * Replaces a file: temporary file in the same folder, fsync, rename. After it resolves the bytes are on disk; that the name is too takes
 * `syncFolder`, which callers that write many files call once.
 */
export async function replaceFile(path: string, bytes: string | Uint8Array, mode = 0o600): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`);
  try {
    const file = await open(temporary, 'wx', mode);
    try {
      await file.writeFile(bytes);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (thrown) {
    await rm(temporary, { force: true });
    throw thrown;
  }
}

/** Puts a folder's names on disk. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Replaces a file, name included: durable when it resolves. */
export async function replaceFileDurably(path: string, bytes: string | Uint8Array, mode = 0o600): Promise<void> {
  await replaceFile(path, bytes, mode);
  await syncFolder(dirname(path));
}
