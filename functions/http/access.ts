// Who may ask for what. Nodes and operators have tokens of their own. Without an operator token file, what operators ask for
// is answered to this machine alone, and not to what a web page or a proxy on it passes on.

import { BlockList, isIPv6 } from 'node:net';
import type { AccessCheck, HttpRequest } from '../http.ts';
import { bearerAllowed } from '../tokens.ts';

export interface AccessOptions {
  /** Null: no node is let in. */
  readonly tokenFile: string | null;
  readonly operatorTokenFile: string | null;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Headers of requests that somebody else's page or proxy makes for them. */
const PASSED_ON = ['origin', 'forwarded', 'x-forwarded-for', 'via'] as const;

export function accessCheck({ tokenFile, operatorTokenFile }: AccessOptions): AccessCheck {
  return async (access, request) => {
    if (access === 'open') return null;
    const file = access === 'node' ? tokenFile : operatorTokenFile;
    if (file !== null) {
      if (await bearerAllowed(request.headers['authorization'], file)) return null;
      return {
        status: 401,
        code: 'bad-token',
        detail: `this needs ${access === 'node' ? 'a node' : 'an operator'} token: Authorization: Bearer TOKEN`,
      };
    }
    if (access === 'operator' && isFromHere(request)) return null;
    return {
      status: 403,
      code: 'loopback-only',
      detail: 'this is answered on the same machine only; serve with --operator-token-file to allow it from elsewhere',
    };
  };
}

function isFromHere({ peer, headers }: HttpRequest): boolean {
  if (peer === null || PASSED_ON.some((name) => headers[name] !== undefined)) return false;
  return LOOPBACK.check(peer, isIPv6(peer) ? 'ipv6' : 'ipv4');
}
