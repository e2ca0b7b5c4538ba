// Bearer tokens: who may follow the head, and who may move it. Files are read anew each time, so that a token can be changed
// without a restart; a file may hold several, one a line, while one replaces another.

import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { HeadgateError } from '../shared/error.ts';

/**
 * True when an Authorization header carries a token of the file.
 * @throws HeadgateError `token-file-unreadable` (stage `serve`); nobody is let in then
 */
export async function bearerAllowed(authorization: string | undefined, tokenFile: string): Promise<boolean> {
  const given = /^Bearer ([^\s]+)$/i.exec(authorization ?? '')?.[1];
  const tokens = await readTokens(tokenFile);
  if (given === undefined) return false;
  const offered = sha256(given);
  return tokens.filter((token) => timingSafeEqual(sha256(token), offered)).length > 0;
}

/** The tokens of a file; empty lines are none. */
export async function readTokens(tokenFile: string): Promise<string[]> {
  try {
    const lines = (await readFile(tokenFile, 'utf8')).split('\n');
    return lines.map((line) => line.trim()).filter((line) => line !== '');
  } catch (cause) {
    throw new HeadgateError('token-file-unreadable', 'serve', `the token file ${tokenFile} cannot be read; make it readable`, { cause });
  }
}

/**
 * For the start of a host: one that would let nobody in is a mistake.
 * @throws HeadgateError `token-file-unreadable` or `token-file-empty` (stage `serve`)
 */
export async function checkTokenFile(tokenFile: string): Promise<void> {
  if ((await readTokens(tokenFile)).length > 0) return;
  throw new HeadgateError('token-file-empty', 'serve', `the token file ${tokenFile} holds no token; write one to it, on a line of its own`);
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
