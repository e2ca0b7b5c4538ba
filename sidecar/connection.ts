// The WebSocket to one of several hosts, opened again for as long as the sidecar runs. It knows nothing of heads: it hands
// over each message in order, one at a time, and a handler that throws ends the session.

import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { type BackoffRange, backoffMs } from '../shared/backoff.ts';
import { errorMessage, HeadgateError } from '../shared/error.ts';
import type { Logger } from '../shared/logger.ts';
import { SUBPROTOCOL } from '../shared/protocol.ts';

/** The node's end of an open stream. */
export interface Link {
  send(message: string): void;
  /** Ends the session; the next address is tried after a wait. */
  drop(reason: string): void;
  /** The session does what it should: waits start from the shortest again. */
  proven(): void;
}

export interface LinkHandler {
  opened(link: Link): Promise<void>;
  received(message: string | Buffer): Promise<void>;
  closed(): void;
}

export interface ConnectionOptions {
  /** `ws://HOST:PORT/stream`, tried in turn. */
  readonly addresses: readonly string[];
  /** Read anew for each connection. */
  readonly tokenFile: string;
  readonly handler: LinkHandler;
  readonly backoff: BackoffRange;
  readonly logger: Logger;
}

export const RECONNECT: BackoffRange = { leastMs: 200, mostMs: 10_000 };

/** Offers and blobs, as sent: bytes. */
const MAX_PAYLOAD = 64 * 1024 * 1024;
const HANDSHAKE_MS = 10_000;
/** Hosts ping every 30 s. */
const SILENCE_MS = 75_000;
/** Messages that may wait to be handled before the socket is paused. */
const WAITING_LIMIT = 8;
const CLOSE_MS = 1_000;

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #closing = new AbortController();
  #failures = 0;
  #lastReason = '';
  #ended: Promise<void> = Promise.resolve();

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  start(): void {
    this.#ended = this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { addresses, backoff } = this.#options;
    const { signal } = this.#closing;
    for (let turn = 0; !signal.aborted; turn += 1) {
      const address = addresses[turn % addresses.length] ?? '';
      const reason = await this.#session(address).catch(errorMessage);
      if (signal.aborted) return;
      this.#failures += 1;
      this.#logLoss(address, reason);
      await sleep(backoffMs(this.#failures, backoff, Math.random()), undefined, { signal }).catch(() => undefined);
    }
  }

  /** One connection, to its end; resolves to why it ended. */
  async #session(address: string): Promise<string> {
    const { tokenFile, handler, logger } = this.#options;
    const token = await readToken(tokenFile);
    if (this.#closing.signal.aborted) return 'the sidecar is stopping';
    const socket = new WebSocket(address, SUBPROTOCOL, {
      headers: { authorization: `Bearer ${token}` },
      perMessageDeflate: false,
      maxPayload: MAX_PAYLOAD,
      handshakeTimeout: HANDSHAKE_MS,
    });
    let reason: string | null = null;
    const drop = (why: string): void => {
      reason ??= why;
      socket.terminate();
    };
    const silence = setTimeout(() => drop('the host fell silent'), SILENCE_MS);
    const heard = (): unknown => silence.refresh();
    const inTurn = handleInTurn(socket, drop);
    const close = (): void => closeGently(socket);
    this.#closing.signal.addEventListener('abort', close);

    socket.on('error', (cause) => (reason ??= errorMessage(cause)));
    socket.on('unexpected-response', (_request, response) => {
      const advice = response.statusCode === 401 ? ': check the token file' : '';
      drop(`the host refused the connection with status ${response.statusCode}${advice}`);
    });
    socket.on('ping', heard);
    socket.on('open', () => {
      logger.info({ address }, 'connected');
      this.#lastReason = '';
      const link: Link = { send: (message) => socket.send(message), drop, proven: () => (this.#failures = 0) };
      inTurn.add(() => handler.opened(link));
    });
    socket.on('message', (data: Buffer, isBinary) => {
      heard();
      inTurn.add(() => handler.received(isBinary ? data : data.toString('utf8')));
    });
    const code = await new Promise<number>((resolve) => socket.once('close', resolve));
    clearTimeout(silence);
    this.#closing.signal.removeEventListener('abort', close);
    await inTurn.done();
    handler.closed();
    return reason ?? `the host closed the connection (code ${code})`;
  }

  #logLoss(address: string, reason: string): void {
    const level = reason === this.#lastReason ? 'debug' : 'warn';
    this.#lastReason = reason;
    this.#options.logger[level]({ address, reason }, 'not connected; trying again');
  }
}

/** A file that holds several while one replaces another: the first counts. */
async function readToken(tokenFile: string): Promise<string> {
  const text = await readFile(tokenFile, 'utf8').catch((cause: unknown) => {
    throw new HeadgateError('token-file-unreadable', 'stream', `the token file ${tokenFile} cannot be read; give a readable one`, {
      cause,
    });
  });
  const lines = text.split('\n').map((line) => line.trim());
  const token = lines.find((line) => line !== '');
  if (token !== undefined) return token;
  throw new HeadgateError('token-file-empty', 'stream', `the token file ${tokenFile} holds no token; write the one of the nodes to it`);
}

/** Runs what arrives one after the other; too much of it stops the reading; what throws drops the session, and the rest of it. */
function handleInTurn(socket: WebSocket, drop: (why: string) => void): { add(work: () => Promise<void>): void; done(): Promise<void> } {
  let last: Promise<void> = Promise.resolve();
  let waiting = 0;
  let broken = false;
  const run = async (work: () => Promise<void>): Promise<void> => {
    try {
      if (!broken) await work();
    } catch (thrown) {
      broken = true;
      drop(errorMessage(thrown));
    }
    waiting -= 1;
    if (waiting < WAITING_LIMIT && socket.isPaused) socket.resume();
  };
  return {
    add(work) {
      waiting += 1;
      if (waiting >= WAITING_LIMIT) socket.pause();
      last = last.then(() => run(work));
    },
    done: () => last,
  };
}

function closeGently(socket: WebSocket): void {
  if (socket.readyState === WebSocket.OPEN) socket.close(1000);
  else socket.terminate();
  setTimeout(() => socket.terminate(), CLOSE_MS).unref();
}
