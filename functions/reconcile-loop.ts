// A host's own reasons to reconcile, beside the triggers that reach it: it starts, its cluster's folder changed, a trigger is
// not served yet, what failed has waited long enough, or nothing has looked for a while.

import { setTimeout as sleep } from 'node:timers/promises';
import { type BackoffRange, backoffMs } from '../shared/backoff.ts';
import { errorMessage } from '../shared/error.ts';
import type { Logger } from '../shared/logger.ts';
import type { Published, Triggers } from './http/triggers.ts';

export interface ReconcileLoopOptions {
  readonly triggers: Triggers;
  /** True while a trigger of anybody is not served and may be. */
  readonly isDirty: () => Promise<boolean>;
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

  /** Reconciles for a caller that waits for the answer, and remembers how it went. */
  async reconcile(trigger: string): Promise<Published | null> {
    try {
      const published = await this.#options.triggers.reconcile(trigger);
      this.#succeeded(published);
      return published;
    } catch (thrown) {
      this.#failed(thrown);
      throw thrown;
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#alarm.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    this.#resyncAt = Date.now() + this.#timings.resyncMs;
    while (!this.#closing.signal.aborted) {
      this.#alarm = new AbortController();
      await this.#look();
      if (this.#closing.signal.aborted) return;
      const wait = this.#due === null ? this.#timings.lookMs : Math.min(this.#timings.lookMs, Math.max(0, this.#retryAt - Date.now()));
      await sleep(wait, undefined, { signal: this.#alarm.signal }).catch(() => undefined);
    }
  }

  async #look(): Promise<void> {
    const trigger = await this.#nextTrigger().catch((thrown: unknown) => {
      this.#failed(thrown);
      return null;
    });
    // How it went is remembered: see `problem`.
    if (trigger !== null) await this.reconcile(trigger).catch(() => undefined);
  }

  async #nextTrigger(): Promise<string | null> {
    const now = Date.now();
    if (now < this.#retryAt) return null;
    const due = this.#due ?? (now >= this.#resyncAt ? 'resync' : null);
    this.#due = null;
    return due ?? ((await this.#options.isDirty()) ? 'dirty' : null);
  }

  #succeeded(published: Published | null): void {
    if (this.#problem !== null) this.#options.logger.info('the cluster reconciles again');
    this.#failures = 0;
    this.#problem = null;
    this.#retryAt = 0;
    this.#resyncAt = Date.now() + this.#timings.resyncMs;
    if (published?.changed === true) this.#options.logger.info({ ...published }, `published version ${published.version}`);
  }

  #failed(thrown: unknown): void {
    if (this.#closing.signal.aborted) return;
    const problem = errorMessage(thrown);
    // The same words every minute help nobody.
    const level = problem === this.#problem ? 'debug' : 'error';
    this.#options.logger[level]({ error: problem }, 'the cluster could not be reconciled; nothing is published until it can');
    this.#failures += 1;
    this.#problem = problem;
    this.#retryAt = Date.now() + backoffMs(this.#failures, this.#timings.retry, Math.random());
    this.#due ??= 'retry';
  }
}
