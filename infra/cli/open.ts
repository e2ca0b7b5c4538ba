// What commands open: the store, and the logger at the level that the environment asks for.

import { loadOptions } from '../../functions/load-options.ts';
import type { Options } from '../../functions/options.ts';
import { HeadgateError } from '../../shared/error.ts';
import { createLogger, type Logger } from '../../shared/logger.ts';
import { openObjectStore } from '../../shared/object-store/open-store.ts';
import { openVersionStore, type VersionStore } from '../../shared/version-store.ts';
import { storeUrl } from './flags.ts';
import { printWarning } from './print.ts';

/** A store that is there already. */
export async function openExistingStore(url: string | undefined): Promise<VersionStore> {
  return openVersionStore(await openObjectStore(storeUrl(url), { create: false }));
}

/** A store to publish to; made when it is not there. */
export async function openPublishingStore(url: string | undefined): Promise<VersionStore> {
  return openVersionStore(await openObjectStore(storeUrl(url)));
}

/** The options of a file, with a warning for what has no effect. */
export async function readOptions(file: string | undefined): Promise<Options> {
  const options = await loadOptions(file ?? null);
  for (const key of options.withoutEffect) printWarning(`${file ?? 'options'}: ${key} has no effect yet`);
  return options;
}

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'];

/** The logger of a command: warnings and errors, unless `HEADGATE_LOG` says otherwise. */
export function commandLogger(part: string): Logger {
  const level = process.env['HEADGATE_LOG'] ?? 'warn';
  if (!LEVELS.includes(level)) throw new HeadgateError('bad-log-level', 'usage', `HEADGATE_LOG is none of ${LEVELS.join(', ')}`);
  return createLogger(level, { part });
}
