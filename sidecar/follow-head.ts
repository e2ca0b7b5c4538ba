// Follows the head over a stream: says what the node has, checks what is offered, fetches the blobs that it lacks, and makes
// a role's content the wanted one once all of it is on disk. Applying is the role's loop's work.
//
//   opened    -> hello
//   offer     -> seen kept; roles that lack nothing are wanted at once; want for the rest
//   blob      -> checked, kept; a role that lacks nothing more is wanted
//   ahead     -> the host has to catch up; another one is tried when it does not
//   gone      -> the offer is over; the next one follows

import { type Digest, isDigest } from '../shared/digest.ts';
import { HeadgateError } from '../shared/error.ts';
import { canonicalJson } from '../shared/json.ts';
import type { Logger } from '../shared/logger.ts';
import type { NodeFile } from '../shared/manifest.ts';
import { type Hello, type HostMessage, hostMessageSchema, type Offer, type Result } from '../shared/protocol.ts';
import type { PerRole, Role } from '../shared/role.ts';
import { inflateBlob } from './blob.ts';
import type { Link, LinkHandler } from './connection.ts';
import type { LastKnownGood } from './last-known-good.ts';
import type { SidecarMetrics } from './metrics.ts';
import { type AcceptedOffer, readOffer, type RoleFiles } from './offer.ts';

export interface FollowOptions {
  readonly node: string;
  readonly roles: readonly Role[];
  readonly memory: LastKnownGood;
  readonly metrics: SidecarMetrics;
  readonly logger: Logger;
  /** Versions of what runs here, for hello. */
  readonly tools: () => Promise<Readonly<Record<string, string>>>;
  /** What a host should know of each role, sent after hello. */
  readonly results: () => readonly Result[];
  /** Files in use besides those that the memory knows of. */
  readonly inUse: () => Iterable<NodeFile>;
  /** A role's wanted content is on disk. */
  readonly onWanted: (role: Role) => void;
}

/** An offer whose blobs are being fetched. */
interface Fetch extends AcceptedOffer {
  readonly files: ReadonlyMap<Digest, NodeFile>;
  /** Blobs that each role lacks; a role that lacks none is not in here. */
  readonly lacking: Map<Role, Set<Digest>>;
  /** Blobs asked for that have not come yet. */
  asked: number;
}

/** Milliseconds that a host may take for its next offer after `ahead` or `gone`, and for the next blob. */
const OFFER_MS = 15_000;
const BLOB_MS = 60_000;
const DIGEST_BYTES = 32;
/** Blobs asked for with one message: hosts take messages of 1 MiB. */
const ASK_TOGETHER = 4096;

export class HeadFollower implements LinkHandler {
  readonly #options: FollowOptions;
  #link: Link | null = null;
  #fetch: Fetch | null = null;
  #deadline: NodeJS.Timeout | undefined;
  /** After a list that was not accepted, the host is asked for whole lists. */
  #wholeLists = false;

  constructor(options: FollowOptions) {
    this.#options = options;
  }

  async opened(link: Link): Promise<void> {
    const { node, roles, memory, metrics, tools, results } = this.#options;
    const content = (role: Role): Digest | null =>
      this.#wholeLists ? null : (memory.record(role).wanted?.head.target.content[role] ?? null);
    const hello: Hello = {
      type: 'hello',
      node,
      roles: [...roles],
      sequence: memory.seen?.sequence ?? 0,
      ...(memory.seen === null ? {} : { store: memory.seen.store }),
      content: { router: content('router'), 'service-proxy': content('service-proxy') } satisfies PerRole<Digest | null>,
      tools: await tools(),
    };
    link.send(canonicalJson(hello));
    for (const result of results()) link.send(canonicalJson(result));
    this.#link = link;
    metrics.connected(true);
  }

  async received(message: string | Buffer): Promise<void> {
    if (typeof message !== 'string') return this.#blob(message);
    const read = parseMessage(message);
    clearTimeout(this.#deadline);
    if (read.type === 'offer') return this.#offer(read);
    if (read.type === 'ahead') {
      this.#options.logger.warn({ sequence: read.sequence }, 'the host has not seen the newest head yet');
    } else {
      this.#options.logger.warn({ blobs: read.digests.length }, 'the host no longer has blobs of its offer; waiting for the next one');
      this.#fetch?.lacking.clear();
    }
    this.#expect(OFFER_MS, 'the host made no offer in time');
  }

  closed(): void {
    clearTimeout(this.#deadline);
    this.#link = null;
    this.#fetch = null;
    this.#options.metrics.connected(false);
  }

  /** Tells the host how a role fares; nothing when none is connected: it is told after hello. */
  report(result: Result): void {
    this.#link?.send(canonicalJson(result));
  }

  /** Starts over with a host, because something that was fetched is lost. */
  fetchAgain(): void {
    this.#link?.drop('blobs on disk were lost');
  }

  async #offer(offer: Offer): Promise<void> {
    const { roles, memory, metrics, logger } = this.#options;
    const accepted = this.#read(offer, roles);
    const { head, lists } = accepted;
    if (memory.seen?.sequence !== head.sequence) await memory.keepSeen({ store: head.store, sequence: head.sequence });
    metrics.sequenceSeen(head.sequence);
    logger.debug({ sequence: head.sequence, version: head.target.number }, 'offered');

    this.#fetch = startFetch(accepted, (digest) => memory.hasBlob(digest));
    for (const role of lists.keys()) {
      if (!this.#fetch.lacking.has(role)) await this.#want(role, this.#fetch);
    }
    await this.#fetchNext(this.#fetch);
  }

  /** Asks for the next blobs, or ends the fetch when none is lacking. */
  async #fetchNext(fetch: Fetch): Promise<void> {
    const digests = [...new Set([...fetch.lacking.values()].flatMap((lacking) => [...lacking]))].slice(0, ASK_TOGETHER);
    if (digests.length === 0) return this.#complete();
    fetch.asked = digests.length;
    this.#link?.send(canonicalJson({ type: 'want', digests }));
    this.#expect(BLOB_MS, 'the host sent no blob in time');
  }

  #read(offer: Offer, roles: readonly Role[]): AcceptedOffer {
    const { memory } = this.#options;
    try {
      const accepted = readOffer(offer, roles, memory.seen, (role, content) => this.#listOf(role, content));
      this.#wholeLists = false;
      return accepted;
    } catch (thrown) {
      this.#wholeLists = thrown instanceof HeadgateError && thrown.code === 'bad-list';
      throw thrown;
    }
  }

  #listOf(role: Role, content: Digest): RoleFiles | null {
    if (this.#fetch?.head.target.content[role] === content) return this.#fetch.lists.get(role) ?? null;
    const { wanted, applied } = this.#options.memory.record(role);
    return [wanted, applied].find((kept) => kept?.head.target.content[role] === content)?.files ?? null;
  }

  async #blob(frame: Buffer): Promise<void> {
    const fetch = this.#fetch;
    const digest = frame.subarray(0, DIGEST_BYTES).toString('hex');
    if (!isDigest(digest)) throw new HeadgateError('bad-frame', 'verify', 'the host sent a binary frame without a digest');
    const file = fetch?.files.get(digest);
    // Left over from an offer that a newer one replaced.
    if (fetch === null || file === undefined || ![...fetch.lacking.values()].some((lacking) => lacking.has(digest))) return;
    const stored = frame.subarray(DIGEST_BYTES);
    await inflateBlob(file, stored);
    await this.#options.memory.keepBlob(digest, stored);
    clearTimeout(this.#deadline);
    for (const [role, lacking] of fetch.lacking) {
      lacking.delete(digest);
      if (lacking.size > 0) continue;
      fetch.lacking.delete(role);
      await this.#want(role, fetch);
    }
    fetch.asked -= 1;
    if (fetch.asked === 0) await this.#fetchNext(fetch);
    else this.#expect(BLOB_MS, 'the host sent no blob in time');
  }

  async #want(role: Role, { head, lists }: AcceptedOffer): Promise<void> {
    const { memory, onWanted } = this.#options;
    const files = lists.get(role);
    if (files === undefined) return;
    if (memory.record(role).wanted?.head.sequence !== head.sequence) await memory.keepRecord(role, { wanted: { head, files } });
    onWanted(role);
  }

  async #complete(): Promise<void> {
    const inUse = [...this.#options.inUse()].map((file) => file.digest);
    await this.#options.memory.sweep(inUse);
    this.#link?.proven();
  }

  #expect(ms: number, otherwise: string): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.#link?.drop(otherwise), ms);
  }
}

function startFetch(accepted: AcceptedOffer, held: (digest: Digest) => boolean): Fetch {
  const files = new Map<Digest, NodeFile>();
  const lacking = new Map<Role, Set<Digest>>();
  for (const [role, list] of accepted.lists) {
    const missing = Object.values(list).filter((file) => !held(file.digest));
    for (const file of missing) files.set(file.digest, file);
    if (missing.length > 0) lacking.set(role, new Set(missing.map((file) => file.digest)));
  }
  return { ...accepted, files, lacking, asked: 0 };
}

function parseMessage(text: string): HostMessage {
  try {
    return hostMessageSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new HeadgateError(
      'bad-message',
      'stream',
      'the host sent a message that this release does not understand; upgrade the older one',
      {
        cause,
      },
    );
  }
}
