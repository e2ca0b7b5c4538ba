// The sealing key as it is given to a program: a file.

import { readFile } from 'node:fs/promises';
import { errnoCode, errorMessage, HeadgateError } from './error.ts';
import { parseSealingKey, type SealingKey } from './seal.ts';

/**
 * Reads the key of a file.
 * @throws HeadgateError `bad-sealing-key` (stage `usage`); the message never holds what is in the file
 */
export async function readSealingKey(file: string): Promise<SealingKey> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    const why =
      errnoCode(cause) === 'ENOENT'
        ? `is not there; \`openssl rand -base64 32 > ${file}\` makes one`
        : `cannot be read: ${errorMessage(cause)}`;
    throw new HeadgateError('bad-sealing-key', 'usage', `the sealing key ${file} ${why}`, { cause });
  });
  return parseSealingKey(text, file);
}
