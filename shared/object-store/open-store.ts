// From a store's URL, as given with --store or HEADGATE_STORE, to the store.

import { fileURLToPath } from 'node:url';
import { HeadgateError } from '../error.ts';
import { type DirectoryOptions, openDirectoryStore } from './directory.ts';
import type { ObjectStore } from './object-store.ts';

/**
 * Opens the store of a URL: `file:///path`.
 * @throws HeadgateError `unsupported-store` (stage `usage`) when the URL is not one of those; stage `store` when it cannot be reached
 */
export async function openObjectStore(url: string, options: Pick<DirectoryOptions, 'create'> = {}): Promise<ObjectStore> {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed?.protocol === 'file:') return openDirectoryStore(folderOf(parsed), options);
  if (parsed?.protocol === 's3:') throw unsupported(`${parsed.protocol} stores are not supported by this release; use file:///path`);
  throw unsupported(
    `${JSON.stringify(url)} is not the URL of a store: write file:///path for a folder, with three slashes and the whole path`,
  );
}

function folderOf(url: URL): string {
  try {
    return fileURLToPath(url).replace(/(?<=.)\/+$/, '');
  } catch (cause) {
    throw new HeadgateError('unsupported-store', 'usage', `${url.href} does not name a folder of this machine: write file:///path`, {
      cause,
    });
  }
}

function unsupported(message: string): HeadgateError {
  return new HeadgateError('unsupported-store', 'usage', message);
}
