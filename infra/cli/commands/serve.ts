// `headgate serve`: all functions behind one port, until it is stopped.

import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { directoryCluster, watchDirectory } from '../../../functions/cluster/directory.ts';
import { loadOptions } from '../../../functions/load-options.ts';
import { startHost } from '../../../functions/platforms/node.ts';
import { HeadgateError } from '../../../shared/error.ts';
import type { Listen } from '../../../shared/listen.ts';
import { stopSignal } from '../flags.ts';
import { commandLogger, openPublishingStore, readSealingKey } from '../open.ts';
import { printLine } from '../print.ts';

export interface ServeFlags {
  readonly store?: string;
  readonly cluster: string;
  readonly listen: Listen;
  readonly tokenFile: string;
  readonly operatorTokenFile?: string;
  readonly sealingKey?: string;
  readonly options?: string;
}

export async function serve(flags: ServeFlags): Promise<void> {
  const stopped = stopSignal();
  const cluster = await watchableCluster(flags.cluster);
  const options = await loadOptions(flags.options ?? null);
  const sealingKey = (await readSealingKey(flags.sealingKey)) ?? null;
  const logger = commandLogger('functions');
  if (sealingKey === null) logger.warn('no --sealing-key: private keys are stored in the clear');
  const host = await startHost({
    listen: flags.listen,
    store: await openPublishingStore(flags.store),
    cluster: directoryCluster(cluster),
    options,
    tokenFile: flags.tokenFile,
    operatorTokenFile: flags.operatorTokenFile ?? null,
    sealingKey,
    logger,
    watch: (onChange) => watchDirectory(cluster, onChange),
  });
  printLine(`Serving on ${host.url}`);
  if (!stopped.aborted) await once(stopped, 'abort');
  await host.close();
}

/** @throws HeadgateError `bad-cluster` (stage `usage`) for what cannot be read again and again */
async function watchableCluster(path: string): Promise<string> {
  if (path === 'kubernetes') {
    throw new HeadgateError(
      'no-kubernetes',
      'usage',
      'reading an API server is not built yet; give a folder of manifests with --cluster DIR',
    );
  }
  if (path === '-')
    throw new HeadgateError('bad-cluster', 'usage', 'serve reads its cluster again and again; give a folder with --cluster DIR');
  await stat(path).catch((cause: unknown) => {
    throw new HeadgateError('bad-cluster', 'usage', `there is no folder ${path}; give a folder of manifests with --cluster DIR`, { cause });
  });
  return path;
}
