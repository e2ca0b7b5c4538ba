// Carries TCP connections in and out of a network namespace through Unix sockets, which are not part of any: one side listens on TCP
// and connects to the socket, the other listens on the socket and connects to TCP. No interface outside the namespace is touched.

import { rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { errnoCode, errorMessage, HeadgateError } from '../../shared/error.ts';

export type End = { readonly path: string } | { readonly host: string; readonly port: number };

/**
 * Listens at `from` and joins every connection to `to`.
 * @throws HeadgateError `port-in-use` or `cannot-listen` (stage `serve`)
 */
export async function relay(from: End, to: End): Promise<{ close(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (incoming) => {
    const outgoing = connect({ ...to, allowHalfOpen: true });
    for (const [socket, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        if (socket.errored !== null || !other.writableEnded) other.destroySoon();
      });
      socket.pipe(other);
    }
  });
  if ('path' in from) await rm(from.path, { force: true });
  await listen(server, from);
  return {
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

async function listen(server: Server, end: End): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => reject(listenError(end, cause)));
    server.listen(end, resolve);
  });
}

function listenError(end: End, cause: unknown): HeadgateError {
  const at = 'path' in end ? end.path : `${end.host}:${end.port}`;
  if (errnoCode(cause) === 'EADDRINUSE') {
    return new HeadgateError('port-in-use', 'serve', `${at} is taken by another program; choose other ports with --port-base N`, { cause });
  }
  return new HeadgateError('cannot-listen', 'serve', `cannot listen on ${at}: ${errorMessage(cause)}`, { cause });
}
