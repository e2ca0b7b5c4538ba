// local.cfg: the part of a configuration that belongs to the node and not to the version. It lies in the generation's folder,
// so that one switch of `current` changes it together with the rest. Pure.

import type { Digest } from '../../shared/digest.ts';

/** Names of a system user and group. */
export interface Account {
  readonly user: string;
  readonly group: string;
}

export interface LocalSettings {
  /** Folder of the sockets; checked by `routerPaths`, so it fits in single quotes. */
  readonly run: string;
  readonly adminSocket: string;
  /** Whom the workers run as; null: whoever starts HAProxy. */
  readonly account: Account | null;
  /** False: the node has no IPv6, and binding to it would fail. */
  readonly ipv6: boolean;
}

/**
 * The text of local.cfg. `show info` of a worker gives the description back, which tells what it loaded.
 * @param generation null: the text without it, which is what generations compare
 */
export function localConfig(settings: LocalSettings, generation: Digest | null): string {
  const { run, adminSocket, account, ipv6 } = settings;
  const lines = [
    'global',
    ...(generation === null ? [] : [`description ${generation}`]),
    // A reload inherits the environment of the one before.
    `setenv HEADGATE_RUN '${run}'`,
    ipv6 ? 'unsetenv HEADGATE_NO_IPV6' : 'setenv HEADGATE_NO_IPV6 1',
    `stats socket '${adminSocket}' mode 600 level admin expose-fd listeners`,
    'stats timeout 1h',
    ...(account === null ? [] : accountLines(account)),
  ];
  return `# Written by Headgate for this node; changes by hand are lost.\n${lines.join('\n  ')}\n`;
}

/** What a local.cfg was before its generation had a name. */
export function withoutDescription(text: string, generation: Digest): string {
  return text.replace(`\n  description ${generation}`, '');
}

/** Workers connect to sockets that the master, which stays root, has made. */
function accountLines({ user, group }: Account): string[] {
  return [`user ${user}`, `group ${group}`, `unix-bind user ${user} group ${group}`];
}
