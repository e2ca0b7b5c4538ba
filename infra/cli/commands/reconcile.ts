// `headgate reconcile`: reads the cluster once and publishes a version when something changed.

import { directoryCluster } from '../../../functions/cluster/directory.ts';
import { loadOptions } from '../../../functions/load-options.ts';
import { reconcile } from '../../../functions/reconcile.ts';
import { author, stopSignal } from '../flags.ts';
import { commandLogger, openPublishingStore, readSealingKey } from '../open.ts';
import { printJson, printLine, printRejections } from '../print.ts';

export interface ReconcileFlags {
  readonly store?: string;
  readonly cluster: string;
  readonly options?: string;
  readonly sealingKey?: string;
  readonly json?: boolean;
}

export async function reconcileOnce(flags: ReconcileFlags): Promise<void> {
  const options = await loadOptions(flags.options ?? null);
  const sealingKey = await readSealingKey(flags.sealingKey);
  const { changed, version, sequence, rejections, head } = await reconcile({
    store: await openPublishingStore(flags.store),
    cluster: directoryCluster(flags.cluster),
    options,
    trigger: 'cli',
    author: author(),
    sealingKey,
    logger: commandLogger('reconcile'),
    signal: stopSignal(),
  });
  if (flags.json) return printJson({ version, sequence, changed, newest: head.newest.number, pin: head.pin, rejections });
  const waiting = head.newest.number === version ? '' : `; version ${head.newest.number} waits for \`headgate resume\``;
  printLine(`version ${version} sequence ${sequence} ${changed ? 'changed' : 'unchanged'}${waiting}`);
  printRejections(rejections);
}
