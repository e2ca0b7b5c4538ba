// What must be there before HAProxy: folders below the state folder, and what is particular to this node.

import { access, chmod, mkdir } from 'node:fs/promises';
import type { Logger } from '../../shared/logger.ts';
import { workersAccount } from './account.ts';
import type { LocalSettings } from './local-config.ts';
import type { RouterPaths } from './paths.ts';

/** Makes the folders and finds out about the node. */
export async function prepareNode(paths: RouterPaths, logger: Logger): Promise<LocalSettings> {
  await mkdir(paths.generations, { recursive: true, mode: 0o700 });
  await mkdir(paths.run, { recursive: true });
  // Workers that are not root pass through to the sockets, which have modes of their own.
  await chmod(paths.run, 0o711);
  const account = await workersAccount(paths.state, logger);
  return { run: paths.run, adminSocket: paths.adminSocket, account, ipv6: await hasIpv6() };
}

/** Linux without IPv6 has no such file; elsewhere it is taken for granted. */
async function hasIpv6(): Promise<boolean> {
  return access('/proc/net/if_inet6').then(
    () => true,
    () => process.platform !== 'linux',
  );
}
