// A server in HAProxy's words: one function for the configuration and for `add server`, so that a server means the same
// whichever way it came to be.

import { word } from './escape.ts';
import type { Server, ServerTls } from './state.ts';

/** `configuration`: after `server `. `socket`: after `add server <backend>/`. */
export type ServerPlace = 'configuration' | 'socket';

/**
 * The server's name, address and settings. Never the keyword `enabled`: a server added with it shows UP and gets no
 * traffic; `enable server` follows instead.
 */
export function serverLine(server: Server, place: ServerPlace): string {
  return [
    word(server.name),
    socketAddress(server.address, server.port),
    `id ${server.id}`,
    `weight ${server.weight}`,
    ...(server.maxConnections === null ? [] : [`maxconn ${server.maxConnections}`]),
    ...(place === 'socket' ? POOLING : []),
    ...(server.tls === null ? [] : tlsWords(server.tls)),
    ...(server.http2 ? [server.tls === null ? 'proto h2' : 'alpn h2,http/1.1'] : []),
    ...(server.checkInterval === null ? [] : [`check inter ${server.checkInterval}ms`]),
  ].join(' ');
}

/** What a server of the configuration has by default and an added one lacks: without it idle connections are not kept. */
const POOLING = ['pool-purge-delay 5s', 'pool-max-conn -1'];

function socketAddress(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

function tlsWords(tls: ServerTls): string[] {
  if (tls.caFile === null) return ['ssl verify none'];
  return [`ssl verify required ca-file ${word(tls.caFile)}`, ...(tls.verifyHost === null ? [] : [`verifyhost ${word(tls.verifyHost)}`])];
}
