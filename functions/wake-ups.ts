// Wake-ups: triggers say only that something changed. `dirty.json` holds the newest trigger's token, `lease.json` who works on
// it and which token was served last; while the two tokens differ there is work, and everyone can see it. The lease
// only saves work: two who believe to hold it do no harm, since the swap of the head decides.

import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { HeadgateError } from '../shared/error.ts';
import { canonicalJson } from '../shared/json.ts';
import type { Etag, ObjectStore } from '../shared/object-store/object-store.ts';

const dirtySchema = z.object({
  token: z.string(),
  /** Milliseconds since the epoch: a reading of the cluster that began earlier does not serve the token. */
  notBefore: z.number(),
});
const leaseSchema = z.object({
  /** null: nobody. */
  holder: z.string().nullable(),
  /** Milliseconds since the epoch. */
  until: z.number(),
  /** The token served last; null: none yet. */
  served: z.string().nullable(),
});
type Dirty = z.infer<typeof dirtySchema>;
type Lease = z.infer<typeof leaseSchema>;

export interface WakeUpOptions {
  readonly objects: ObjectStore;
  /** Names this process among those that may hold the lease. */
  readonly holder: string;
  /** Reads the head, then the cluster, and publishes what differs: see reconcile.ts. */
  readonly pass: () => Promise<void>;
  /** When the head was moved last, in milliseconds since the epoch; null: never. */
  readonly lastMove: () => Promise<number | null>;
  readonly now?: () => number;
  readonly sleep?: (ms: number) => Promise<void>;
}

/** `clean`: no work. `served`: the newest token is. `busy`: another works on it, or it changes faster than we pass: answer 202. */
export type WakeUpOutcome = 'clean' | 'served' | 'busy';

const MARKS_SHARE_MS = 250;
const PASSES = 3;
const MOVES_APART_MS = 1_000;
/** Clocks differ; nobody waits longer than this for another's. */
const LONGEST_WAIT_MS = 5_000;
/** Longer than a pass takes; one that takes longer may be joined by another. */
const LEASE_MS = 20_000;

const DIRTY = 'dirty.json';
const LEASE = 'lease.json';

/** The wake-ups of one process. */
export class WakeUps {
  readonly #options: WakeUpOptions;
  readonly #now: () => number;
  readonly #sleep: (ms: number) => Promise<void>;
  #lastMark = Number.NEGATIVE_INFINITY;
  #pending: { notBefore: number; readonly written: Promise<void> } | null = null;

  constructor(options: WakeUpOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#sleep = options.sleep ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms)));
  }

  /**
   * Writes that something changed; resolves when it is stored. Calls within 250 ms share one write, which begins after all of them.
   * @param delayMs how long until the change can be read: an admission webhook is asked before the object is stored
   */
  mark(delayMs = 0): Promise<void> {
    const notBefore = this.#now() + delayMs;
    if (this.#pending === null) this.#pending = { notBefore, written: this.#writeMark() };
    else this.#pending.notBefore = Math.max(this.#pending.notBefore, notBefore);
    return this.#pending.written;
  }

  /**
   * Passes until the newest token is served, unless somebody else does.
   * @throws whatever a pass throws, with the lease let go and nothing marked as served
   */
  async runIfDirty(): Promise<WakeUpOutcome> {
    for (let passes = 0; ; passes += 1) {
      const lease = await this.#read(LEASE, leaseSchema);
      // Read before the cluster is, and again after the lease is let go: a trigger that found it held relies on that.
      const dirty = (await this.#read(DIRTY, dirtySchema))?.value;
      if (dirty === undefined || dirty.token === lease?.value.served) return passes === 0 ? 'clean' : 'served';
      if (passes === PASSES || !(await this.#passUnderLease(lease, dirty))) return 'busy';
    }
  }

  /** One pass; false when another has the lease, or took it in the meantime because we were slow. */
  async #passUnderLease(lease: Stored<Lease> | null, dirty: Dirty): Promise<boolean> {
    if (lease !== null && this.#isHeld(lease.value)) return false;
    let served = lease?.value.served ?? null;
    const held = await this.#write(LEASE, { holder: this.#options.holder, until: this.#now() + LEASE_MS, served }, lease?.etag ?? null);
    if (held === null) return false;
    let freed: Etag | null = null;
    try {
      await this.#waitFor(dirty.notBefore);
      const began = this.#now();
      await this.#options.pass();
      if (began >= dirty.notBefore) served = dirty.token;
    } finally {
      freed = await this.#write(LEASE, { holder: null, until: 0, served }, held);
    }
    return freed !== null;
  }

  /** A lease that ends later than any lease of now could was written by a clock that is far ahead: it would keep everybody away until then. */
  #isHeld({ holder, until }: Lease): boolean {
    const left = until - this.#now();
    return holder !== null && left > 0 && left <= LEASE_MS + LONGEST_WAIT_MS;
  }

  /** Waits until the change can be read, and until a second after the last move. */
  async #waitFor(notBefore: number): Promise<void> {
    const lastMove = (await this.#options.lastMove()) ?? Number.NEGATIVE_INFINITY;
    const wait = Math.max(notBefore, lastMove + MOVES_APART_MS) - this.#now();
    if (wait > 0) await this.#sleep(Math.min(wait, LONGEST_WAIT_MS));
  }

  async #writeMark(): Promise<void> {
    await this.#sleep(Math.max(0, this.#lastMark + MARKS_SHARE_MS - this.#now()));
    const notBefore = this.#pending?.notBefore ?? this.#now();
    // From here on a trigger starts a write of its own: this one may have been read before it.
    this.#pending = null;
    this.#lastMark = this.#now();
    const token = randomUUID();
    for (let etag: Etag | null = null; etag === null; ) {
      const found = await this.#read(DIRTY, dirtySchema);
      // Another's delay holds on, but not the one of a clock that is far ahead.
      const theirs = Math.min(found?.value.notBefore ?? 0, this.#now() + LONGEST_WAIT_MS);
      etag = await this.#write(DIRTY, { token, notBefore: Math.max(notBefore, theirs) }, found?.etag ?? null);
    }
  }

  async #read<T>(key: string, schema: z.ZodType<T>): Promise<Stored<T> | null> {
    const found = await this.#options.objects.get(key);
    if (found === null) return null;
    try {
      return { value: schema.parse(JSON.parse(Buffer.from(found.bytes).toString('utf8'))), etag: found.etag };
    } catch (cause) {
      throw new HeadgateError('bad-wake-up', 'store', `${this.#options.objects.url}: ${key} cannot be read; delete it, it is made anew`, {
        cause,
      });
    }
  }

  /** Null when somebody else wrote since `seen` was read. */
  async #write(key: string, value: Dirty | Lease, seen: Etag | null): Promise<Etag | null> {
    const condition = seen === null ? 'absent' : { etag: seen };
    const result = await this.#options.objects.put(key, Buffer.from(`${canonicalJson(value)}\n`), condition);
    return result.outcome === 'written' ? result.etag : null;
  }
}

interface Stored<T> {
  readonly value: T;
  readonly etag: Etag;
}
