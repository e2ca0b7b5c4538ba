// A host's own reasons to reconcile, beside the triggers that reach it: it starts, its cluster's folder changed, a trigger is
// not served yet, what failed has waited long enough, or nothing has looked for a while.

import { setTimeout as sleep } from 'node:timers/promises';
import { type BackoffRange, backoffMs } from '../shared/backoff.ts';
import { errorMessage } from '../shared/error.ts';
import type { Logger } from '../shared/logger.ts';
import type { Published, Triggers } from './triggers.ts';

export interface ReconcileLoopOptions {
  readonly triggers: Triggers;
  readonly logger: Logger;
  readonly timings?: ReconcileTimings;
}

/** Milliseconds. */
export interface ReconcileTimings {
  readonly lookMs: number;
  readonly resyncMs: number;
  readonly retry: BackoffRange;
}

const TIMINGS: ReconcileTimings = { lookMs: 2_000, resyncMs: 300_000, retry: { leastMs: 1_000, mostMs: 60_000 } };

export class ReconcileLoop {
  readonly #options: ReconcileLoopOptions;
  readonly #timings: ReconcileTimings;
  readonly #closing = new AbortController();
  #alarm = new AbortController();
  /** Why the next look should reconcile; null: only what it finds. */
  #due: string | null = 'start';
  #failures = 0;
  #problem: string | null = null;
  /** Both on the clock that only goes forward: one that is set back would stop all looks. */
  #retryAt = 0;
  #resyncAt = 0;
  #ended: Promise<void> = Promise.resolve();

  constructor(options: ReconcileLoopOptions) {
    this.#options = options;
    this.#timings = options.timings ?? TIMINGS;
  }

  /** Why the last reconcile failed; null when it did not. */
  get problem(): string | null {
    return this.#problem;
  }

  start(): void {
    this.#ended = this.#run();
  }

  /** The cluster changed: reconciles as soon as it can. */
  changed(trigger: string): void {
    this.#due = trigger;
    this.#retryAt = 0;
    this.#alarm.abort();
  }

  /** Remembers that the cluster changes soon. */
  mark(delayMs: number): Promise<void> {
    return this.#options.triggers.mark(delayMs);
  }

  /** Reconciles for a caller that waits for the answer, and remembers how it went. */
  async reconcile(trigger: string): Promise<Published | null> {
    try {
      return this.#succeeded(await this.#options.triggers.reconcile(trigger));
    } catch (thrown) {
      this.#failed(thrown, trigger);
      throw thrown;
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#alarm.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    this.#resyncAt = performance.now() + this.#timings.resyncMs;
    while (!this.#closing.signal.aborted) {
      this.#alarm = new AbortController();
      await this.#look();
      if (this.#closing.signal.aborted) return;
      const wait =
        this.#due === null ? this.#timings.lookMs : Math.min(this.#timings.lookMs, Math.max(0, this.#retryAt - performance.now()));
      await sleep(wait, undefined, { signal: this.#alarm.signal }).catch(() => undefined);
    }
  }

  async #look(): Promise<void> {
    const now = performance.now();
    if (now < this.#retryAt) return;
    const trigger = this.#due ?? (now >= this.#resyncAt ? 'resync' : null);
    this.#due = null;
    const { triggers } = this.#options;
    try {
      this.#succeeded(await (trigger === null ? triggers.serveMarks() : triggers.reconcile(trigger)));
      if (trigger !== null) this.#resyncAt = performance.now() + this.#timings.resyncMs;
    } catch (thrown) {
      this.#failed(thrown, trigger);
    }
  }

  #succeeded(published: Published | null): Published | null {
    if (this.#problem !== null) this.#options.logger.info('the cluster reconciles again');
    this.#failures = 0;
    this.#problem = null;
    this.#retryAt = 0;
    return published;
  }

  #failed(thrown: unknown, trigger: string | null): void {
    if (this.#closing.signal.aborted) return;
    const problem = errorMessage(thrown);
    // The same words every minute help nobody.
    const level = problem === this.#problem ? 'debug' : 'error';
    this.#options.logger[level]({ error: problem }, 'the cluster could not be reconciled; nothing is published until it can');
    this.#failures += 1;
    this.#problem = problem;
    // What changed while it failed may have mended it: that is looked at without a wait.
    if (this.#due === null) this.#retryAt = performance.now() + backoffMs(this.#failures, this.#timings.retry, Math.random());
    this.#due ??= trigger;
  }
}
