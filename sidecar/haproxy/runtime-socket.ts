// Talking to HAProxy's sockets: single questions, and sessions in prompt mode that keep many commands in flight. Knows
// nothing of what the commands mean.

import { connect, type Socket } from 'node:net';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { Logger } from '../../shared/logger.ts';

/** HAProxy's default buffer less its reserve: a longer command is dropped without an answer, whatever the buffer of ours is. */
export const LONGEST_COMMAND = 16_384 - 1_024;
/** Commands that are sent ahead of their replies. */
const IN_FLIGHT = 100;
const TIMEOUT_MS = 10_000;
const END_OF_REPLY = '\n> ';

/**
 * Asks one question on a connection of its own and gives the whole answer.
 * @throws HeadgateError `haproxy-silent` when somebody is there and does not answer in time, else `haproxy-socket` (both stage `apply`)
 */
export function ask(path: string, question: string, timeoutMs: number = TIMEOUT_MS): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    let answer = '';
    socket.setEncoding('utf8');
    socket.setTimeout(timeoutMs, () => {
      reject(new HeadgateError('haproxy-silent', 'apply', `HAProxy gave no answer on ${path} within ${timeoutMs} ms`));
      socket.destroy();
    });
    socket.on('data', (text: string) => {
      answer += text;
    });
    socket.once('end', () => resolve(answer));
    socket.once('error', (cause) => reject(socketError(path, cause)));
    socket.once('close', () => reject(socketError(path, new Error('the connection was cut'))));
    socket.end(`${question}\n`);
  });
}

interface Asked {
  readonly text: string;
  readonly resolve: (reply: string) => void;
  readonly reject: (cause: HeadgateError) => void;
}

/** A session on the admin socket. After a reload it still talks to the old worker: compare the Pid before and after its use. */
export class RuntimeSocket {
  readonly #path: string;
  readonly #socket: Socket;
  readonly #logger: Logger;
  readonly #queued: Asked[] = [];
  readonly #inFlight: Asked[] = [];
  #received = '';
  #failure: HeadgateError | null = null;

  private constructor(path: string, socket: Socket, logger: Logger) {
    this.#path = path;
    this.#socket = socket;
    this.#logger = logger;
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => this.#receive(text));
    socket.once('error', (cause) => this.#fail(cause));
    socket.once('close', () => this.#fail(new Error('HAProxy closed the session')));
  }

  /**
   * Opens a session.
   * @param timeoutMs longest silence while a reply is awaited
   * @throws HeadgateError `haproxy-socket` (stage `apply`)
   */
  static async open(path: string, logger: Logger, timeoutMs: number = TIMEOUT_MS): Promise<RuntimeSocket> {
    const socket = connect(path);
    const session = new RuntimeSocket(path, socket, logger);
    socket.setTimeout(timeoutMs, () => {
      if (session.#inFlight.length > 0) socket.destroy(new Error(`no reply within ${timeoutMs} ms`));
    });
    await session.command('prompt');
    return session;
  }

  /**
   * Sends a command, its payload included (`add map F <<`, lines, an empty line), and gives the reply without white space around it.
   * Calls need not wait for one another.
   * @throws HeadgateError `haproxy-socket` when the session ends first; `command-too-long` (both stage `apply`)
   */
  command(text: string): Promise<string> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    if (Buffer.byteLength(text) > LONGEST_COMMAND) {
      const what = `a command of ${Buffer.byteLength(text)} bytes is more than HAProxy's socket takes (${LONGEST_COMMAND})`;
      return Promise.reject(new HeadgateError('command-too-long', 'apply', what));
    }
    return new Promise((resolve, reject) => {
      this.#queued.push({ text, resolve, reject });
      this.#send();
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #send(): void {
    while (this.#inFlight.length < IN_FLIGHT) {
      const next = this.#queued.shift();
      if (next === undefined) return;
      this.#inFlight.push(next);
      this.#logger.trace({ command: next.text }, 'to HAProxy');
      this.#socket.write(`${next.text}\n`);
    }
  }

  #receive(text: string): void {
    this.#received += text;
    let from = 0;
    for (;;) {
      const end = this.#received.indexOf(END_OF_REPLY, from);
      if (end < 0) break;
      this.#reply(this.#received.slice(from, end));
      from = end + END_OF_REPLY.length;
    }
    this.#received = this.#received.slice(from);
    this.#send();
  }

  /** While it reads a payload, HAProxy answers each line with `+ `. */
  #reply(text: string): void {
    const asked = this.#inFlight.shift();
    if (asked === undefined) this.#socket.destroy(new Error('HAProxy sent a reply to no command'));
    asked?.resolve(text.replace(/^(?:\+ )+/, '').trim());
  }

  #fail(cause: Error): void {
    this.#failure ??= socketError(this.#path, cause);
    for (const { reject } of [...this.#inFlight.splice(0), ...this.#queued.splice(0)]) reject(this.#failure);
  }
}

function socketError(path: string, cause: Error): HeadgateError {
  return new HeadgateError('haproxy-socket', 'apply', `HAProxy does not answer on ${path}: ${errorMessage(cause)}`, { cause });
}
