// One node's session of the stream: hello, offers, the blobs that it wants, its results. What carries the messages (a
// WebSocket, or a test) is given; see shared/protocol.ts for the messages.

import type { Digest } from '../shared/digest.ts';
import { errorMessage } from '../shared/error.ts';
import { canonicalJson } from '../shared/json.ts';
import type { Head } from '../shared/head.ts';
import type { Logger } from '../shared/logger.ts';
import { type Hello, type HostMessage, type NodeMessage, nodeMessageSchema, type Result } from '../shared/protocol.ts';
import type { Role } from '../shared/role.ts';
import type { BlobFrames } from './blob-frames.ts';
import type { HeadSource, Offering } from './head-source.ts';
import { offerText } from './offer-text.ts';

/** The host's end of a stream. */
export interface StreamSocket {
  /** Resolves when the message has left: whoever awaits it never runs ahead of a slow node. */
  send(message: string | Uint8Array): Promise<void>;
  close(code: number, reason: string): void;
}

/** Who wants to know of nodes. */
export interface StreamReports {
  connected(hello: Hello): void;
  result(node: string, result: Result): void;
  disconnected(node: string): void;
}

export interface StreamSessionOptions {
  readonly source: HeadSource;
  readonly frames: BlobFrames;
  readonly reports: StreamReports;
  readonly socket: StreamSocket;
  readonly logger: Logger;
}

/** WebSocket status: the peer broke the protocol. */
const POLICY_VIOLATION = 1008;
const INTERNAL_ERROR = 1011;
/** Milliseconds until an offer whose blobs were gone is made again, when no newer head came. */
const OFFER_AGAIN_MS = 5_000;
/** Blobs read from the store while earlier ones are sent. */
const READ_AHEAD = 8;

export class StreamSession {
  readonly #options: StreamSessionOptions;
  #hello: Hello | null = null;
  #unsubscribe: () => void = () => undefined;
  #offerAgain: NodeJS.Timeout | undefined;
  /** The offer made last, and the one before: what a node may ask for while they cross on the way. */
  #offered: readonly Offering[] = [];
  #outgoing: string[] = [];
  #wanted: Digest[] = [];
  #offerDue = false;
  #sending = false;
  #ended = false;

  constructor(options: StreamSessionOptions) {
    this.#options = options;
  }

  /** A text message of the node. What breaks the protocol closes the session. */
  receive(text: string): void {
    if (this.#ended) return;
    const message = parseMessage(text);
    if (message === null) return this.#violation('a message was not understood');
    if (message.type === 'hello') return this.#welcome(message);
    if (this.#hello === null) return this.#violation('the first message must be hello');
    if (message.type === 'want') return this.#want(message.digests, this.#hello.roles);
    if (!this.#hello.roles.includes(message.role)) return this.#violation('a result for a role that hello did not name');
    this.#options.reports.result(this.#hello.node, message);
  }

  /** The connection has closed. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#offerAgain);
    this.#unsubscribe();
    if (this.#hello !== null) this.#options.reports.disconnected(this.#hello.node);
  }

  #welcome(hello: Hello): void {
    if (this.#hello !== null) return this.#violation('hello came twice');
    this.#hello = hello;
    const { source, reports } = this.#options;
    reports.connected(hello);
    this.#unsubscribe = source.subscribe(() => this.#offerSoon());
    if (isBehind(source.current?.revision.head ?? null, hello)) {
      this.#say({ type: 'ahead', sequence: source.current?.revision.head.sequence ?? 0 });
      source.notice();
    }
    this.#offerSoon();
  }

  #want(digests: readonly Digest[], roles: readonly Role[]): void {
    const [latest, ...earlier] = this.#offered;
    if (latest === undefined) return this.#violation('nothing was offered yet');
    const offeredBy = (offering: Offering, digest: Digest): boolean => roles.some((role) => offering.blobs[role].has(digest));
    const known = digests.every((digest) => [latest, ...earlier].some((offering) => offeredBy(offering, digest)));
    if (!known) return this.#violation('a blob was asked for that was not offered');
    // What only the earlier offer named is not needed any more: the node asks again for the latest.
    this.#wanted = digests.filter((digest) => offeredBy(latest, digest));
    this.#sendSoon();
  }

  #say(message: HostMessage): void {
    this.#outgoing.push(canonicalJson(message));
  }

  #offerSoon(): void {
    this.#offerDue = true;
    this.#sendSoon();
  }

  #sendSoon(): void {
    if (this.#sending || this.#ended) return;
    this.#sendAll().catch((thrown: unknown) => {
      if (this.#ended) return;
      this.#options.logger.warn({ node: this.#hello?.node, error: errorMessage(thrown) }, 'a stream was closed');
      this.#options.socket.close(INTERNAL_ERROR, 'the host failed; try again');
    });
  }

  /** Sends what is due, one message at a time: messages, then the newest offer, then blobs. */
  async #sendAll(): Promise<void> {
    this.#sending = true;
    try {
      while (!this.#ended) {
        const message = this.#outgoing.shift() ?? this.#takeOffer();
        const digest = message === null ? this.#wanted.shift() : undefined;
        if (message !== null) await this.#options.socket.send(message);
        else if (digest !== undefined) await this.#sendBlob(digest);
        else return;
      }
    } finally {
      this.#sending = false;
    }
  }

  #takeOffer(): string | null {
    const { source } = this.#options;
    const { current } = source;
    const hello = this.#hello;
    if (!this.#offerDue || hello === null || current === null || isBehind(current.revision.head, hello)) return null;
    this.#offerDue = false;
    clearTimeout(this.#offerAgain);
    const baseOf = (role: Role): Digest | null => this.#offered[0]?.revision.head.target.content[role] ?? hello.content[role];
    const text = offerText(current, hello.roles, baseOf, source);
    this.#offered = [current, ...this.#offered].slice(0, 2);
    this.#wanted = [];
    return text;
  }

  async #sendBlob(digest: Digest): Promise<void> {
    const { frames, socket } = this.#options;
    const generation = (wanted: Digest): number => this.#generationOf(wanted);
    for (const next of this.#wanted.slice(0, READ_AHEAD)) frames.frame(next, generation(next)).catch(() => undefined);
    const frame = await frames.frame(digest, generation(digest));
    if (frame !== null) return socket.send(frame);
    this.#gone(digest);
  }

  #generationOf(digest: Digest): number {
    const latest = this.#offered[0];
    return this.#hello?.roles.map((role) => latest?.blobs[role].get(digest)).find((generation) => generation !== undefined) ?? 0;
  }

  #gone(digest: Digest): void {
    const { logger, source } = this.#options;
    logger.warn({ blob: digest }, 'a blob of the offered version is gone; reading the head again');
    this.#wanted = [];
    this.#say({ type: 'gone', digests: [digest] });
    source.notice();
    clearTimeout(this.#offerAgain);
    this.#offerAgain = setTimeout(() => this.#offerSoon(), OFFER_AGAIN_MS);
  }

  #violation(reason: string): void {
    this.#options.logger.warn({ node: this.#hello?.node, reason }, 'a node broke the protocol');
    this.#options.socket.close(POLICY_VIOLATION, reason);
    this.end();
  }
}

/** Whether a node has seen a later head than this replica. A node of another store counts other sequences: it is offered the head, and refuses it in words. */
function isBehind(head: Head | null, hello: Hello): boolean {
  if (head !== null && hello.store !== undefined && hello.store !== head.store) return false;
  return (head?.sequence ?? 0) < hello.sequence;
}

function parseMessage(text: string): NodeMessage | null {
  try {
    const result = nodeMessageSchema.safeParse(JSON.parse(text));
    return result.success ? result.data : null;
  } catch {
    return null;
  }
}
