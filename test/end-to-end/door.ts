// Requests to addresses inside a network namespace, through the door that node-inside.mjs keeps open.

import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, TLSSocket } from 'node:tls';
import { errorMessage } from '../../shared/error.ts';

export interface Asked {
  readonly host: string;
  readonly path?: string;
  readonly address?: string;
  readonly port?: number;
  readonly tls?: boolean;
}

export interface Answer {
  readonly status: number;
  /** The pod that answered; null when it was HAProxy, or the sidecar. */
  readonly pod: string | null;
  readonly body: string;
  /** The names of the certificate shown; null without TLS. */
  readonly names: string | null;
}

export type Reply = Answer | { readonly error: string };

/** ms without an answer that count as none: a packet that no rule takes is answered by nobody. */
const SILENCE_MS = 2_000;

/** One request on a connection of its own. */
export async function askThrough(door: string, asked: Asked & { readonly address: string; readonly port: number }): Promise<Reply> {
  const outside = connect(door);
  outside.setTimeout(SILENCE_MS, () => outside.destroy(new Error('no answer')));
  const failed = new Promise<Reply>((resolve) => outside.once('error', (error) => resolve({ error: error.message })));
  const answered = converse(outside, asked).catch((error: unknown): Reply => ({ error: errorMessage(error) }));
  try {
    return await Promise.race([answered, failed]);
  } finally {
    outside.destroy();
  }
}

async function converse(
  outside: Socket,
  { address, port, host, path = '/', tls = false }: Parameters<typeof askThrough>[1],
): Promise<Answer> {
  await once(outside, 'connect');
  outside.write(`${address} ${port}\n`);
  const socket = tls ? await secured(outside, host) : outside;
  const asking = request({ host, path, headers: { host, connection: 'close' }, createConnection: () => socket });
  asking.end();
  const [response]: IncomingMessage[] = await once(asking, 'response');
  if (response === undefined) throw new Error('no response');
  let body = '';
  for await (const chunk of response) body += String(chunk);
  const pod = response.headers['x-pod'];
  return {
    status: response.statusCode ?? 0,
    pod: typeof pod === 'string' ? pod : null,
    body,
    names: socket instanceof TLSSocket ? (socket.getPeerCertificate().subjectaltname ?? '') : null,
  };
}

async function secured(outside: Socket, servername: string): Promise<TLSSocket> {
  const socket = connectTls({ socket: outside, servername, rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  return socket;
}
