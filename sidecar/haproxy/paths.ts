// Where the router role keeps its things below the state folder.

import { join } from 'node:path';
import { HeadgateError } from '../../shared/error.ts';

export interface RouterPaths {
  /** The state folder, absolute. */
  readonly state: string;
  /** Sockets of HAProxy: the admin socket, and those by which its frontends reach each other. */
  readonly run: string;
  readonly adminSocket: string;
  readonly masterSocket: string;
  readonly generations: string;
  /** Symbolic link to the generation that the next start or reload loads. */
  readonly current: string;
  readonly journal: string;
  /** What HAProxy prints. */
  readonly log: string;
}

/** HAProxy binds `<path>.<pid>.tmp` first, which is why it takes no longer ones. */
const LONGEST_SOCKET_PATH = 97;
/** The longest name of a socket below `run`. */
const LONGEST_SOCKET_NAME = 'fe_https.sock'.length;
/** What HAProxy gives a meaning to in an address, even in quotes, and what would end a line of its configuration. */
const UNUSABLE = /[,"'\\$\p{Cc}]/u;

/**
 * The paths below a state folder.
 * @throws HeadgateError `bad-state-directory` (stage `serve`) when HAProxy could not use them
 */
export function routerPaths(state: string): RouterPaths {
  const run = join(state, 'run');
  const longest = LONGEST_SOCKET_PATH - (Buffer.byteLength(run) - Buffer.byteLength(state)) - 1 - LONGEST_SOCKET_NAME;
  if (Buffer.byteLength(state) > longest) {
    throw badStateDirectory(`the state folder ${state} has too long a path for HAProxy's sockets below it (at most ${longest} bytes)`);
  }
  if (UNUSABLE.test(state)) {
    throw badStateDirectory(`HAProxy cannot use sockets below ${JSON.stringify(state)}: a character of the path has a meaning to it`);
  }
  return {
    state,
    run,
    adminSocket: join(run, 'admin.sock'),
    masterSocket: join(state, 'master.sock'),
    generations: join(state, 'router', 'generations'),
    current: join(state, 'router', 'current'),
    journal: join(state, 'journal'),
    log: join(state, 'haproxy.log'),
  };
}

function badStateDirectory(what: string): HeadgateError {
  return new HeadgateError('bad-state-directory', 'serve', `${what}; choose another one with --state`);
}
