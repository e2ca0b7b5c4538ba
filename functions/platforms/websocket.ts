// Streams over `ws` on a Node HTTP server: the upgrade with its checks, pings, and dropping of slow nodes. A session sends one
// message at a time, so that no more than that ever waits for a node. What is said in a stream is functions/stream.ts.

import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { errorMessage } from '../../shared/error.ts';
import type { Logger } from '../../shared/logger.ts';
import { SUBPROTOCOL } from '../../shared/protocol.ts';
import type { BlobFrames } from '../blob-frames.ts';
import type { HeadSource } from '../head-source.ts';
import { type Problem, problemOf } from '../problem.ts';
import { type StreamReports, StreamSession } from '../stream.ts';
import { bearerAllowed } from '../tokens.ts';
import { refuseUpgrade } from './node-server.ts';

export interface StreamServerOptions {
  readonly source: HeadSource;
  readonly frames: BlobFrames;
  readonly reports: StreamReports;
  /** Tokens of nodes; read anew for each connection. */
  readonly tokenFile: string;
  readonly logger: Logger;
}

/** Bytes of one message of a node. */
const MAX_PAYLOAD = 1024 * 1024;
const PING_MS = 30_000;
/** Milliseconds in which one message must have left. */
const SEND_MS = 60_000;
const CLOSE_MS = 1_000;

export class StreamServer {
  readonly #options: StreamServerOptions;
  readonly #server = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: MAX_PAYLOAD,
    handleProtocols: () => SUBPROTOCOL,
  });
  readonly #pings: NodeJS.Timeout;
  readonly #silent = new WeakSet<WebSocket>();

  constructor(options: StreamServerOptions) {
    this.#options = options;
    this.#pings = setInterval(() => this.#pingAll(), PING_MS);
    this.#pings.unref();
  }

  /** Takes over a socket whose request asked for an upgrade. */
  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const problem = await this.#refusal(request);
    if (problem !== null) return refuseUpgrade(socket, problem);
    this.#server.handleUpgrade(request, socket, head, (connection) => this.#open(connection));
  }

  async close(): Promise<void> {
    clearInterval(this.#pings);
    const clients = [...this.#server.clients];
    const closed = clients.map((client) => new Promise((resolve) => client.once('close', resolve)));
    for (const client of clients) client.close(1001, 'the host is stopping');
    const late = setTimeout(() => clients.forEach((client) => client.terminate()), CLOSE_MS);
    await Promise.all(closed);
    clearTimeout(late);
  }

  async #refusal(request: IncomingMessage): Promise<Problem | null> {
    const { tokenFile, logger } = this.#options;
    try {
      if (!(await bearerAllowed(request.headers.authorization, tokenFile))) {
        logger.warn({ peer: request.socket.remoteAddress }, 'a stream without a valid token was refused');
        return { status: 401, code: 'bad-token', detail: 'the stream needs a node token: Authorization: Bearer TOKEN' };
      }
    } catch (thrown) {
      logger.error({ error: errorMessage(thrown) }, 'streams are refused');
      return problemOf(thrown);
    }
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
    if (offered.includes(SUBPROTOCOL)) return null;
    return { status: 400, code: 'bad-subprotocol', detail: `the stream speaks the WebSocket subprotocol ${SUBPROTOCOL}` };
  }

  #open(connection: WebSocket): void {
    const { source, frames, reports, logger } = this.#options;
    const socket = { send: (message: string | Uint8Array) => sendAll(connection, message), close: closeOf(connection) };
    const session = new StreamSession({ source, frames, reports, socket, logger });
    connection.on('message', (data: Buffer, isBinary) => {
      if (isBinary) connection.close(1003, 'nodes send text');
      else session.receive(data.toString('utf8'));
    });
    connection.on('pong', () => this.#silent.delete(connection));
    connection.on('error', (error) => logger.warn({ error: errorMessage(error) }, 'a stream broke'));
    connection.on('close', () => session.end());
  }

  #pingAll(): void {
    for (const client of this.#server.clients) {
      if (this.#silent.has(client)) {
        client.terminate();
        continue;
      }
      this.#silent.add(client);
      client.ping();
    }
  }
}

/** Resolves when the bytes went to the system; a node that does not take them is dropped: it comes back and starts over. */
function sendAll(connection: WebSocket, message: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    const slow = setTimeout(() => connection.terminate(), SEND_MS);
    connection.send(message, (error) => {
      clearTimeout(slow);
      if (error) reject(error);
      else resolve();
    });
  });
}

function closeOf(connection: WebSocket): (code: number, reason: string) => void {
  return (code, reason) => {
    connection.close(code, reason);
    setTimeout(() => connection.terminate(), CLOSE_MS).unref();
  };
}
