// `headgate serve`: all functions behind one port, until it is stopped.

import { once } from 'node:events';
import { directoryCluster, watchDirectory } from '../../../functions/cluster/directory.ts';
import { startHost } from '../../../functions/platforms/node.ts';
import type { Listen } from '../../../shared/listen.ts';
import { readSealingKey } from '../../../shared/sealing-key-file.ts';
import { watchablePath } from '../cluster.ts';
import { stopSignal } from '../flags.ts';
import { commandLogger, openPublishingStore, readOptions } from '../open.ts';
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
  const cluster = await watchablePath(flags.cluster);
  const options = await readOptions(flags.options);
  const sealingKey = flags.sealingKey === undefined ? null : await readSealingKey(flags.sealingKey);
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
