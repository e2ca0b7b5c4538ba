// Makes a folder and its parents. Node's own `recursive` never returns where mkdir(2) says ENOENT for good, as below /proc.

import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errnoCode } from './error.ts';

/** Makes the folder, if it is not there, and those above it. Throws the system's error. */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    await makeOneFolder(path, mode);
  } catch (thrown) {
    if (errnoCode(thrown) !== 'ENOENT' || dirname(path) === path) throw thrown;
    await makeFolder(dirname(path), mode);
    await makeOneFolder(path, mode);
  }
}

async function makeOneFolder(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (thrown) {
    if (errnoCode(thrown) !== 'EEXIST') throw thrown;
  }
}
