// Whom HAProxy's workers run as: not root, where the node allows it.

import { readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Logger } from '../../shared/logger.ts';
import type { Account } from './local-config.ts';

const USER = 'haproxy';

interface Identity {
  readonly account: Account;
  readonly uid: number;
  readonly gid: number;
}

/**
 * The user `haproxy` when we are root, it exists, and it can get to the state folder, where the sockets lie by which frontends reach each
 * other. Otherwise null, with the reason in the log when we are root.
 */
export async function workersAccount(state: string, logger: Logger): Promise<Account | null> {
  if (process.getuid?.() !== 0) return null;
  const identity = await findIdentity();
  const barrier = identity === null ? null : await findBarrier(state, identity);
  if (identity !== null && barrier === null) return identity.account;
  const why = identity === null ? `there is no user ${USER}` : `the user ${USER} cannot enter ${barrier}`;
  logger.warn(`HAProxy's workers run as root: ${why}`);
  return null;
}

async function findIdentity(): Promise<Identity | null> {
  const [users, groups] = await Promise.all([readTable('/etc/passwd'), readTable('/etc/group')]);
  const [, , uid, gid] = users.find(([name]) => name === USER) ?? [];
  const [group] = groups.find(([, , id]) => id !== undefined && id === gid) ?? [];
  if (uid === undefined || group === undefined) return null;
  return { account: { user: USER, group }, uid: Number(uid), gid: Number(gid) };
}

async function readTable(path: string): Promise<string[][]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text.split('\n').map((line) => line.split(':'));
}

/** The first folder on the way that the user cannot enter. */
async function findBarrier(state: string, { uid, gid }: Identity): Promise<string | null> {
  for (let folder = state; ; folder = dirname(folder)) {
    const { mode, uid: owner, gid: group } = await stat(folder);
    const bit = owner === uid ? 0o100 : group === gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return folder;
    if (folder === dirname(folder)) return null;
  }
}
