// HAProxy on this node: knows which generation runs, and brings HAProxy to another one by commands, a reload or a start. The
// link `current` is switched first, so that disk is the truth for whatever HAProxy loads next; the journal, written before
// that, tells a successor of a process killed in between what may run.

import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { Logger } from '../../shared/logger.ts';
import { capabilitiesOf, type InstalledHaproxy } from './capabilities.ts';
import { checkGeneration } from './check.ts';
import { compareServers, leftOver } from './compare-servers.ts';
import { type RouterContents, routerContents } from './contents.ts';
import type { Generation, Generations } from './generations.ts';
import { readJournal, runningGeneration, writeJournal } from './journal.ts';
import type { RouterPaths } from './paths.ts';
import { type Plan, plan } from './plan.ts';
import { findRunning, type Running, startHaproxy } from './process.ts';
import { parseServersState } from './readback.ts';
import { reloadHaproxy } from './reload.ts';
import { ask } from './runtime-socket.ts';
import { sendCommands } from './send-commands.ts';
import { ServerRemovals } from './server-removals.ts';
import { alertWords } from './words.ts';

/** What has been done of an application; each is a place where a kill must do no harm. */
export type Step = 'written' | 'checked' | 'journalled' | 'switched' | 'changed' | 'applied';

export interface NodeHaproxyOptions {
  readonly paths: RouterPaths;
  readonly generations: Generations;
  readonly reloadScript: string;
  /** Least milliseconds from the end of a reload to the next one. */
  readonly minimumReloadIntervalMs: number;
  readonly serverRemovalGraceMs: number;
  readonly logger: Logger;
  readonly now: () => number;
  readonly onStep: (step: Step) => void;
}

/** What runs, and which generation it is; null: something that no generation is. */
interface Observed {
  readonly running: Running;
  readonly generation: Generation | null;
}

export interface Brought {
  readonly how: 'start' | 'reload' | 'runtime' | 'unchanged';
  /** Why it was a reload; empty otherwise. */
  readonly reasons: readonly string[];
}

export class NodeHaproxy {
  readonly removals: ServerRemovals;
  readonly #options: NodeHaproxyOptions;
  /** The worker whose lingering servers are known. */
  #pid: number | null = null;
  #reloadFrom = Number.NEGATIVE_INFINITY;

  constructor(options: NodeHaproxyOptions) {
    const { paths, logger, now, serverRemovalGraceMs: graceMs } = options;
    this.#options = options;
    this.removals = new ServerRemovals({ adminSocket: paths.adminSocket, logger, graceMs, now });
  }

  /**
   * Makes HAProxy run a generation that is on disk.
   * @param reasons why nothing but a reload will do, whatever the generations say
   * @throws HeadgateError as the check, the start and the reload do; the signal's reason when aborted before the switch
   */
  async bring(
    to: Generation,
    haproxy: InstalledHaproxy,
    signal: AbortSignal,
    reasons: (from: Generation) => Promise<readonly string[]> = async () => [],
  ): Promise<Brought> {
    const observed = await this.observe();
    if (observed === null) {
      await this.#check(to, haproxy, signal);
      await this.#start(to, haproxy);
      return { how: 'start', reasons: [] };
    }
    const planned = await this.#plan(observed, to, reasons);
    if (planned.kind === 'none') {
      await this.#rename(observed, to);
      return { how: 'unchanged', reasons: [] };
    }
    if (planned.kind === 'reload') return this.#reload(observed, to, haproxy, planned.reasons, signal);
    signal.throwIfAborted();
    try {
      await this.#change(observed, to, planned);
      return { how: 'runtime', reasons: [] };
    } catch (thrown) {
      this.#options.logger.warn({ error: errorMessage(thrown) }, 'the change at run time did not go as planned: reloading');
      // Until the reload has worked, the next start is safest with what ran before.
      if (observed.generation !== null) await this.#options.generations.switchTo(observed.generation.name);
      return this.#reload({ ...observed, generation: null }, to, haproxy, [errorMessage(thrown)], signal);
    }
  }

  /** What runs now; null when HAProxy does not. A worker that was not seen before is asked for servers that an earlier sidecar left. */
  async observe(): Promise<Observed | null> {
    const { paths, generations } = this.#options;
    const running = await findRunning(paths);
    if (running === null) {
      this.#pid = null;
      return null;
    }
    const name = runningGeneration(await readJournal(paths.journal), running.worker);
    const generation = name === null ? null : await generations.read(name).catch(() => null);
    if (this.#pid !== running.worker.pid) {
      this.removals.clear();
      if (generation !== null) this.removals.add(leftOver(routerContents(generation.files), await this.#readServers()));
      this.#pid = running.worker.pid;
    }
    return { running, generation };
  }

  /** Compares the servers of a running generation with it and puts them right. Gives what was found, in words. */
  async compareServers({ running, generation }: Observed, haproxy: InstalledHaproxy, signal: AbortSignal): Promise<readonly string[]> {
    if (generation === null) return [];
    const differences = compareServers(routerContents(generation.files), await this.#readServers(), this.removals.lingering);
    if (differences.reload) {
      await this.#reload({ running, generation: null }, generation, haproxy, differences.found, signal);
    } else if (differences.commands.length > 0) {
      const { paths, logger } = this.#options;
      await sendCommands(paths.adminSocket, running.worker.pid, [differences.commands], logger);
    }
    return differences.found;
  }

  /** Whether a reload would not have to wait. */
  mayReload(): boolean {
    return this.#options.now() >= this.#reloadFrom;
  }

  async #readServers(): Promise<ReturnType<typeof parseServersState>> {
    return parseServersState(await ask(this.#options.paths.adminSocket, 'show servers state'));
  }

  async #plan({ running, generation }: Observed, to: Generation, reasons: (from: Generation) => Promise<readonly string[]>): Promise<Plan> {
    if (generation === null) return { kind: 'reload', reasons: ['what HAProxy runs is not known'] };
    const others = await reasons(generation);
    if (generation.name === to.name && others.length === 0) return { kind: 'none' };
    const planned = plan(contentsOf(generation), contentsOf(to), this.removals.lingering, capabilitiesOf(running.worker.version));
    if (others.length === 0) return planned;
    return { kind: 'reload', reasons: [...others, ...(planned.kind === 'reload' ? planned.reasons : [])] };
  }

  async #check(to: Generation, haproxy: InstalledHaproxy, signal: AbortSignal): Promise<void> {
    await checkGeneration(this.#options.generations, to, haproxy, signal);
    this.#options.onStep('checked');
  }

  /** The worker runs all that the generation says already: only the name on disk differs. */
  async #rename({ running }: Observed, to: Generation): Promise<void> {
    const { paths, generations } = this.#options;
    if ((await generations.current()) !== to.name) await generations.switchTo(to.name);
    await writeJournal(paths.journal, { from: to.name, to: to.name, stage: 'applied', pid: running.worker.pid });
  }

  async #change({ running, generation }: Observed, to: Generation, planned: Extract<Plan, { kind: 'runtime' }>): Promise<void> {
    const { paths, logger } = this.#options;
    const { pid } = running.worker;
    await this.#switch(generation, to, 'commands', pid);
    this.removals.keep(planned.revived);
    await sendCommands(paths.adminSocket, pid, planned.steps, logger);
    this.removals.add(planned.removed);
    await this.#applied(generation, to, pid);
  }

  async #reload(
    observed: Observed,
    to: Generation,
    haproxy: InstalledHaproxy,
    reasons: readonly string[],
    signal: AbortSignal,
  ): Promise<Brought> {
    const { paths, reloadScript: script, logger } = this.#options;
    const { running: before, generation } = observed;
    await this.#check(to, haproxy, signal);
    await this.#untilReloadMay(signal);
    signal.throwIfAborted();
    const began = this.#options.now();
    const running = await this.#switched(generation, to, 'reload', before.worker.pid, () =>
      reloadHaproxy({ script, paths, before, generation: to.name, files: to.files }),
    ).finally(() => this.#reloadEnded(began));
    const { pid } = running.worker;
    this.removals.clear();
    this.#pid = pid;
    await this.#applied(generation, to, pid);
    logger.info({ reasons, oldWorkers: running.master.oldWorkers, ms: Math.round(this.#options.now() - began) }, 'HAProxy reloaded');
    return { how: 'reload', reasons };
  }

  async #start(to: Generation, haproxy: InstalledHaproxy): Promise<void> {
    const { paths, generations, logger } = this.#options;
    const start = (): Promise<Running> => startHaproxy(haproxy.path, paths, to.name);
    // To start what `current` names nothing need be written, so that a full disk does not keep HAProxy down.
    const isCurrent = (await generations.current()) === to.name;
    const running = await (isCurrent ? start() : this.#switched(null, to, 'start', null, start)).catch((thrown: unknown) => {
      if (!(thrown instanceof HeadgateError) || thrown.code !== 'start-failed') throw thrown;
      const words = alertWords(thrown.message, to.files);
      throw new HeadgateError('start-failed', 'apply', `HAProxy does not start: ${words}`, { cause: thrown });
    });
    this.removals.clear();
    this.#pid = running.worker.pid;
    await this.#applied(null, to, running.worker.pid);
    logger.info({ pid: running.master.pid, version: running.worker.version }, 'HAProxy started');
  }

  /** Does a step after switching to a generation, and switches back when it fails. */
  async #switched<T>(
    from: Generation | null,
    to: Generation,
    stage: 'reload' | 'start',
    pid: number | null,
    work: () => Promise<T>,
  ): Promise<T> {
    const { paths, generations } = this.#options;
    const before = await generations.current();
    await this.#switch(from, to, stage, pid);
    try {
      return await work();
    } catch (thrown) {
      if (before === null) await rm(paths.current, { force: true });
      else if (before !== to.name) await generations.switchTo(before);
      throw thrown;
    }
  }

  async #switch(from: Generation | null, to: Generation, stage: 'commands' | 'reload' | 'start', pid: number | null): Promise<void> {
    const { paths, generations, onStep } = this.#options;
    await writeJournal(paths.journal, { from: from?.name ?? null, to: to.name, stage, pid });
    onStep('journalled');
    await generations.switchTo(to.name);
    onStep('switched');
  }

  async #applied(from: Generation | null, to: Generation, pid: number): Promise<void> {
    const { paths, onStep } = this.#options;
    onStep('changed');
    await writeJournal(paths.journal, { from: from?.name ?? null, to: to.name, stage: 'applied', pid });
    onStep('applied');
  }

  async #untilReloadMay(signal: AbortSignal): Promise<void> {
    const ms = this.#reloadFrom - this.#options.now();
    if (ms > 0) await sleep(ms, undefined, { signal });
  }

  #reloadEnded(began: number): void {
    const now = this.#options.now();
    this.#reloadFrom = now + Math.max(this.#options.minimumReloadIntervalMs, 2 * (now - began));
  }
}

function contentsOf(generation: Generation): RouterContents {
  return routerContents(generation.files);
}
