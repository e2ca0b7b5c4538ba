// Brings one role of the node to its wanted content and keeps it there: one thing at a time, the newest content first, tried
// again with backoff when it failed, never again when the tool refused it. Each role has its own loop: what happens to one
// role never waits for the other.

import { setTimeout as sleep } from 'node:timers/promises';
import { type BackoffRange, backoffMs } from '../shared/backoff.ts';
import type { Digest } from '../shared/digest.ts';
import { errorMessage, HeadgateError } from '../shared/error.ts';
import type { Logger } from '../shared/logger.ts';
import type { Result } from '../shared/protocol.ts';
import type { Role } from '../shared/role.ts';
import type { SealingKey } from '../shared/seal.ts';
import type { KeptContent, LastKnownGood } from './last-known-good.ts';
import type { SidecarMetrics } from './metrics.ts';
import { type Failure, nextStep, standingRefusal } from './next-target.ts';
import { logResult, resultOf } from './result.ts';
import { readContent } from './role-content.ts';
import type { RoleApplier, RoleOutcome } from './role.ts';

export interface RoleTimings {
  readonly retry: BackoffRange;
  /** Milliseconds between looks for drift. */
  readonly driftMs: number;
}

export const ROLE_TIMINGS: RoleTimings = { retry: { leastMs: 1_000, mostMs: 60_000 }, driftMs: 30_000 };

export interface RoleLoopOptions {
  readonly role: Role;
  /** Makes the applier; tried again with the content when it fails. */
  readonly open: () => Promise<RoleApplier>;
  readonly memory: LastKnownGood;
  readonly sealingKeys: readonly SealingKey[];
  readonly timings: RoleTimings;
  readonly metrics: SidecarMetrics;
  readonly logger: Logger;
  readonly onResult: (result: Result) => void;
  /** A blob of the wanted content is no longer on disk: it must be fetched again. */
  readonly onLostBlob: () => void;
}

/** Refused contents that are remembered. */
const REFUSALS_KEPT = 16;
/** Milliseconds that tools have to tell their versions. */
const TOOLS_MS = 5_000;

export class RoleLoop {
  readonly role: Role;
  readonly #options: RoleLoopOptions;
  readonly #closing = new AbortController();
  readonly #failures = new Map<Digest, Failure>();
  #applier: Promise<RoleApplier> | null = null;
  #applying: KeptContent | null = null;
  #running: Digest | null = null;
  #settled = true;
  #applied: Result | null = null;
  #verdict: Result | null = null;
  #alarm = new AbortController();
  /** Like all times here on the clock that only goes forward: after one that is set back nothing would be tried again. */
  #driftDue = 0;
  #ended: Promise<void> = Promise.resolve();

  constructor(options: RoleLoopOptions) {
    this.role = options.role;
    this.#options = options;
  }

  start(): void {
    this.#ended = this.#run();
  }

  /** The wanted content may have changed: looks at once. */
  wake(): void {
    this.#alarm.abort();
  }

  /** What a host should know of this role: what was applied last, and, after it, what became of the wanted content. */
  results(): Result[] {
    const results = [this.#applied, this.#verdict].filter((result) => result !== null);
    return [...new Set(results)];
  }

  /** The content that is being applied right now: its blobs are in use, whatever became wanted since. */
  get applying(): KeptContent | null {
    return this.#applying;
  }

  /** True when traffic is served from content that this process applied. */
  async ready(): Promise<boolean> {
    return this.#running !== null && (await this.#openApplier()).ready();
  }

  /** Versions of the role's tools; none when they cannot be asked, or do not answer soon. */
  async tools(): Promise<Readonly<Record<string, string>>> {
    const asked = this.#openApplier().then((applier) => applier.tools());
    return Promise.race([asked.catch(() => ({})), sleep(TOOLS_MS, {}, { ref: false })]);
  }

  /** Aborts what is being applied and lets go; what runs on the node keeps running. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.wake();
    await this.#ended;
    await (await this.#applier)?.close();
  }

  async #run(): Promise<void> {
    const { logger, timings } = this.#options;
    this.#driftDue = performance.now() + timings.driftMs;
    while (!this.#closing.signal.aborted) {
      this.#alarm = new AbortController();
      try {
        await this.#step();
      } catch (thrown) {
        // Only the node's own disk gets here: what cannot be remembered is tried again.
        logger.error({ role: this.role, error: errorMessage(thrown) }, `the state of ${this.role} could not be kept`);
        await this.#sleepUntil(performance.now() + backoffMs(1, timings.retry, Math.random()));
      }
    }
  }

  async #step(): Promise<void> {
    const record = this.#options.memory.record(this.role);
    const step = nextStep(
      this.role,
      record,
      { running: this.#running, settled: this.#settled, failures: this.#failures },
      performance.now(),
    );
    if (step.do === 'apply') return this.#apply(step.kept);
    if (record.wanted !== null) await this.#confirm(record.wanted);
    if (this.#driftDue <= performance.now()) await this.#repairDrift();
    await this.#sleepUntil(Math.min(step.until ?? Number.POSITIVE_INFINITY, this.#driftDue));
  }

  async #apply(kept: KeptContent): Promise<void> {
    const { memory, logger, metrics, onResult } = this.#options;
    const content = kept.head.target.content[this.role];
    logger.debug({ role: this.role, version: kept.head.target.number }, 'applying');
    this.#applying = kept;
    const outcome = await this.#attempt(kept);
    this.#applying = null;
    if (this.#closing.signal.aborted && outcome.outcome !== 'applied') return;
    const result = resultOf(this.role, kept.head, outcome);
    metrics.applied(result);
    if (outcome.outcome === 'applied') {
      this.#running = content;
      this.#settled = true;
      this.#failures.delete(content);
      this.#applied = result;
    } else if (outcome.outcome === 'failed') {
      this.#settled = false;
      this.#fail(content);
    }
    await this.#remember(kept, result);
    // Content that stands in for the wanted one is no verdict on it.
    const wanted = memory.record(this.role).wanted;
    if (wanted?.head.target.content[this.role] === content) this.#verdict = result;
    logResult(logger, result);
    for (const each of this.results()) onResult(each);
  }

  async #attempt(kept: KeptContent): Promise<RoleOutcome> {
    const started = performance.now();
    try {
      const applier = await this.#openApplier();
      const { memory, sealingKeys } = this.#options;
      const digests = new Map(Object.entries(kept.files).map(([path, { digest }]) => [path, digest]));
      const files = await readContent(memory, kept.files, sealingKeys, applier.needs?.(digests));
      const { number: version, content } = kept.head.target;
      const movedAt = Date.parse(kept.head.time);
      const target = { version, sequence: kept.head.sequence, content: content[this.role], movedAt, files, digests };
      return await applier.apply(target, this.#closing.signal);
    } catch (thrown) {
      if (thrown instanceof HeadgateError && thrown.code === 'blob-lost') this.#options.onLostBlob();
      const stage = thrown instanceof HeadgateError ? thrown.stage : 'apply';
      return { outcome: 'failed', how: null, stage, message: errorMessage(thrown), durationMs: Math.round(performance.now() - started) };
    }
  }

  #openApplier(): Promise<RoleApplier> {
    this.#applier ??= this.#options.open().catch((thrown: unknown) => {
      this.#applier = null;
      throw thrown;
    });
    return this.#applier;
  }

  #fail(content: Digest): void {
    const record = this.#options.memory.record(this.role);
    const current = [record.wanted, record.applied].map((kept) => kept?.head.target.content[this.role]);
    for (const failed of this.#failures.keys()) {
      if (!current.includes(failed)) this.#failures.delete(failed);
    }
    const count = (this.#failures.get(content)?.count ?? 0) + 1;
    this.#failures.set(content, { count, retryAt: performance.now() + backoffMs(count, this.#options.timings.retry, Math.random()) });
  }

  async #remember(kept: KeptContent, result: Result): Promise<void> {
    const { memory } = this.#options;
    const content = kept.head.target.content[this.role];
    const others = memory.record(this.role).refused.filter(({ head }) => head.target.content[this.role] !== content);
    if (result.outcome === 'applied') await memory.keepRecord(this.role, { applied: kept, refused: others });
    if (result.outcome === 'refused') {
      await memory.keepRecord(this.role, { refused: [...others, { head: kept.head, result }].slice(-REFUSALS_KEPT) });
    }
  }

  /** The head moved and this role's content did not: says again, for the new head, what is known of it. */
  async #confirm(wanted: KeptContent): Promise<void> {
    const { memory, metrics, onResult } = this.#options;
    const { head } = wanted;
    if (this.#verdict?.sequence === head.sequence) return;
    const refusal = standingRefusal(this.role, memory.record(this.role), head);
    if (refusal !== null) {
      this.#verdict = { ...refusal.result, sequence: head.sequence, version: head.target.number };
    } else if (head.target.content[this.role] === this.#running) {
      const outcome: RoleOutcome = { outcome: 'applied', how: 'unchanged', stage: null, message: '', durationMs: 0 };
      this.#verdict = resultOf(this.role, head, outcome);
      this.#applied = this.#verdict;
      metrics.runs(this.role, head.target.number);
      await memory.keepRecord(this.role, { applied: wanted });
    } else {
      return;
    }
    for (const result of this.results()) onResult(result);
  }

  async #repairDrift(): Promise<void> {
    const { logger, metrics, timings } = this.#options;
    this.#driftDue = performance.now() + timings.driftMs;
    if (this.#running === null) return;
    try {
      const { repaired, lost = false } = await (await this.#openApplier()).repairDrift(this.#closing.signal);
      metrics.driftRepaired(this.role, repaired.length);
      for (const what of repaired) logger.warn({ role: this.role }, `drift repaired: ${what}`);
      if (!lost) return;
      this.#running = null;
      this.wake();
    } catch (thrown) {
      if (!this.#closing.signal.aborted) logger.error({ role: this.role, error: errorMessage(thrown) }, 'drift could not be repaired');
    }
  }

  async #sleepUntil(time: number): Promise<void> {
    const ms = Math.min(Math.max(0, time - performance.now()), this.#options.timings.driftMs);
    // Woken before it was time: nothing to do about that but look again.
    await sleep(ms, undefined, { signal: this.#alarm.signal }).catch(() => undefined);
  }
}
