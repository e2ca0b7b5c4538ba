// `headgate reconcile`: reads the cluster once and publishes a version when something changed.

import { directoryCluster } from '../../../functions/cluster/directory.ts';
import { reconcile } from '../../../functions/reconcile.ts';
import { OUR_CERTIFICATE_SERVES } from '../../../functions/router/default-certificate.ts';
import { readSealingKey } from '../../../shared/sealing-key-file.ts';
import { manifestPath } from '../cluster.ts';
import { author, stopSignal } from '../flags.ts';
import { commandLogger, openPublishingStore, readOptions } from '../open.ts';
import { printJson, printLine, printRejections, printWarning } from '../print.ts';

export interface ReconcileFlags {
  readonly store?: string;
  readonly cluster: string;
  readonly options?: string;
  readonly sealingKey?: string;
  readonly json?: boolean;
}

export async function reconcileOnce(flags: ReconcileFlags): Promise<void> {
  const signal = stopSignal();
  const options = await readOptions(flags.options);
  const sealingKey = flags.sealingKey === undefined ? undefined : await readSealingKey(flags.sealingKey);
  const { changed, version, sequence, rejections, head, ourCertificateServes } = await reconcile({
    store: await openPublishingStore(flags.store),
    cluster: directoryCluster(manifestPath(flags.cluster)),
    options,
    trigger: 'cli',
    author: author(),
    sealingKey,
    logger: commandLogger('reconcile'),
    signal,
  });
  if (sealingKey === undefined) printWarning('no --sealing-key: private keys are stored in the clear');
  if (ourCertificateServes) printWarning(OUR_CERTIFICATE_SERVES);
  if (flags.json) return printJson({ version, sequence, changed, newest: head.newest.number, pin: head.pin, rejections });
  const waiting = head.newest.number === version ? '' : `; version ${head.newest.number} waits for \`headgate resume\``;
  printLine(`version ${version} sequence ${sequence} ${changed ? 'changed' : 'unchanged'}${waiting}`);
  printRejections(rejections);
}
