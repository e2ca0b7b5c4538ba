// Listening on a TCP address, with the errors that an operator can act on.

import type { Server } from 'node:net';
import { errnoCode, HeadgateError } from './error.ts';

export interface Listen {
  readonly host: string;
  /** 0: the kernel chooses. */
  readonly port: number;
}

/**
 * Listens, and resolves to the port.
 * @throws HeadgateError `port-in-use` or `bad-listen` (stage `serve`)
 */
export async function listenOn(server: Server, { host, port }: Listen): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => reject(listenError({ host, port }, cause)));
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

function listenError({ host, port }: Listen, cause: Error): HeadgateError {
  const at = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return errnoCode(cause) === 'EADDRINUSE'
    ? new HeadgateError('port-in-use', 'serve', `${at} is taken by another program; choose another with --listen`, { cause })
    : new HeadgateError('bad-listen', 'serve', `cannot listen on ${at}; choose another address with --listen`, { cause });
}
