// `headgate sidecar`: makes this node match the head, until it is stopped. HAProxy and the rules outlive it.

import { resolve } from 'node:path';
import { HeadgateError } from '../../../shared/error.ts';
import type { Listen } from '../../../shared/listen.ts';
import type { Role } from '../../../shared/role.ts';
import { cleanUp, runSidecar } from '../../../sidecar/main.ts';
import { stopSignal } from '../flags.ts';
import { commandLogger } from '../open.ts';
import { printLine } from '../print.ts';

export interface SidecarFlags {
  readonly stream?: readonly string[];
  readonly node?: string;
  readonly state: string;
  readonly tokenFile?: string;
  readonly roles: readonly Role[];
  readonly haproxy: string;
  readonly reloadScript?: string;
  readonly listen?: Listen;
  readonly sealingKey?: string;
  readonly takeOver?: boolean;
  readonly cleanup?: boolean;
}

export async function sidecar(flags: SidecarFlags): Promise<void> {
  const signal = stopSignal();
  const logger = commandLogger('sidecar');
  if (flags.cleanup === true) {
    const { chains, jumps } = await cleanUp({ signal, logger });
    return printLine(`Removed ${chains} chains and ${jumps} jumps.`);
  }
  await runSidecar(
    {
      node: needed(flags.node, '--node NAME'),
      addresses: needed(flags.stream, '--stream ws://HOST:PORT/stream'),
      tokenFile: needed(flags.tokenFile, '--token-file FILE (or HEADGATE_TOKEN_FILE)'),
      state: flags.state,
      roles: flags.roles,
      haproxy: flags.haproxy,
      reloadScript: flags.reloadScript === undefined ? null : resolve(flags.reloadScript),
      sealingKeyFiles: flags.sealingKey === undefined ? [] : [flags.sealingKey],
      takeOver: flags.takeOver ?? false,
      listen: flags.listen ?? null,
    },
    { signal, logger },
  );
}

function needed<T>(value: T | undefined, flag: string): T {
  if (value !== undefined) return value;
  throw new HeadgateError('missing-flag', 'usage', `sidecar needs ${flag}`);
}
