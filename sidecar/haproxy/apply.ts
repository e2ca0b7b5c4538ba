// The router role: composes this node's files from a version's shards, makes HAProxy serve them, and keeps it serving.

import { access, chmod, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Digest } from '../../shared/digest.ts';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { Files } from '../../shared/files.ts';
import type { Logger } from '../../shared/logger.ts';
import { composeRouter } from '../../shared/router/compose.ts';
import type { Drift, RoleApplier, RoleOutcome, RoleTarget } from '../role.ts';
import { workersAccount } from './account.ts';
import { findHaproxy, type InstalledHaproxy } from './capabilities.ts';
import { checkGeneration } from './check.ts';
import { type Generation, generationName, Generations, LOCAL_CONFIG } from './generations.ts';
import { localConfig, type LocalSettings } from './local-config.ts';
import { NodeHaproxy, type Step } from './node-haproxy.ts';
import { type RouterPaths, routerPaths } from './paths.ts';
import { boundLog, findWorker } from './process.ts';
import { defaultReloadScript } from './reload.ts';

export interface HaproxyRoleOptions {
  /** The state folder, absolute; it exists. */
  readonly stateDirectory: string;
  /** HAProxy's path, or its name in PATH. */
  readonly haproxy: string;
  /** Run for each reload; default: `reload-haproxy`, whose head says what it is given. */
  readonly reloadScript?: string;
  readonly logger: Logger;
  /** Milliseconds from the end of a reload to the next one, unless twice its duration is more. Default 5,000. */
  readonly minimumReloadIntervalMs?: number;
  /** Milliseconds that connections to a removed server may go on, unless a reload's `hard-stop-after` ends them. Default 600,000. */
  readonly serverRemovalGraceMs?: number;
  /** Milliseconds between looks whether HAProxy still runs. Default 2,000. */
  readonly watchMs?: number;
  /** Milliseconds on a clock that only goes forward. */
  readonly now?: () => number;
  /** Told of every step of an application, as it is done. */
  readonly onStep?: (step: Step) => void;
}

const GENERATIONS_KEPT = 8;
/** Of how many looks for drift one compares all servers. */
const COMPARE_EVERY = 10;
/** Reasons of a reload that are spelled out in a result. */
const REASONS_NAMED = 20;
/** Codes of errors that say that the content is bad, not the node. */
const REFUSALS: ReadonlySet<string> = new Set(['configuration-refused', 'secret-missing', 'bad-content']);

/**
 * The applier of the router role. HAProxy is not touched before the first `apply`.
 * @throws HeadgateError `bad-state-directory` when HAProxy could not have its sockets below the state folder
 */
export async function haproxyRole(options: HaproxyRoleOptions): Promise<RoleApplier> {
  const { logger, onStep = () => undefined, now = () => performance.now() } = options;
  const paths = routerPaths(options.stateDirectory);
  await makeFolders(paths);
  const generations = new Generations(paths);
  const node = new NodeHaproxy({
    paths,
    generations,
    reloadScript: options.reloadScript ?? defaultReloadScript(),
    minimumReloadIntervalMs: options.minimumReloadIntervalMs ?? 5_000,
    serverRemovalGraceMs: options.serverRemovalGraceMs ?? 600_000,
    logger,
    now,
    onStep,
  });
  const settings = await localSettings(paths, logger);
  return new HaproxyRole({
    node,
    paths,
    generations,
    settings,
    haproxy: options.haproxy,
    watchMs: options.watchMs ?? 2_000,
    logger,
    now,
    onStep,
  });
}

async function makeFolders(paths: RouterPaths): Promise<void> {
  await mkdir(paths.generations, { recursive: true, mode: 0o700 });
  await mkdir(paths.run, { recursive: true });
  // Workers that are not root pass through to the sockets, which have modes of their own.
  await chmod(paths.run, 0o711);
}

async function localSettings({ state, run, adminSocket }: RouterPaths, logger: Logger): Promise<LocalSettings> {
  const ipv6 = await access('/proc/net/if_inet6').then(
    () => true,
    () => process.platform !== 'linux',
  );
  return { run, adminSocket, account: await workersAccount(state, logger), ipv6 };
}

interface HaproxyRoleParts {
  readonly node: NodeHaproxy;
  readonly paths: RouterPaths;
  readonly generations: Generations;
  readonly settings: LocalSettings;
  readonly haproxy: string;
  readonly watchMs: number;
  readonly logger: Logger;
  readonly now: () => number;
  readonly onStep: (step: Step) => void;
}

class HaproxyRole implements RoleApplier {
  readonly role = 'router';
  readonly #parts: HaproxyRoleParts;
  readonly #closing = new AbortController();
  readonly #watch: NodeJS.Timeout;
  /** The end of what is being done: applying, repairing and watching take turns. */
  #busy: Promise<unknown> = Promise.resolve();
  #watching = false;
  #checking: Promise<void> = Promise.resolve();
  #looks = 0;
  #trouble = '';

  constructor(parts: HaproxyRoleParts) {
    this.#parts = parts;
    this.#watch = setInterval(() => void this.#look(), parts.watchMs);
    this.#watch.unref();
  }

  async tools(): Promise<Readonly<Record<string, string>>> {
    const { version } = await findHaproxy(this.#parts.haproxy);
    return { haproxy: version };
  }

  async apply(target: RoleTarget, signal: AbortSignal): Promise<RoleOutcome> {
    const started = this.#parts.now();
    const durationMs = (): number => Math.round(this.#parts.now() - started);
    try {
      const { how, reasons } = await this.#inTurn(() => this.#apply(target, signal));
      return { outcome: 'applied', how, stage: null, message: reasonsText(reasons), durationMs: durationMs() };
    } catch (thrown) {
      return { ...judged(thrown), how: null, message: errorMessage(thrown), durationMs: durationMs() };
    }
  }

  async repairDrift(signal: AbortSignal): Promise<Drift> {
    return this.#inTurn(async () => {
      const haproxy = await findHaproxy(this.#parts.haproxy);
      this.#looks += 1;
      return { repaired: await this.#repair(haproxy, signal, this.#looks % COMPARE_EVERY === 0) };
    });
  }

  async ready(): Promise<boolean> {
    const { paths, generations } = this.#parts;
    const [worker, current] = await Promise.all([findWorker(paths).catch(() => null), generations.current()]);
    return worker !== null && current !== null;
  }

  async close(): Promise<void> {
    clearInterval(this.#watch);
    this.#closing.abort();
    await this.#busy;
    await this.#checking;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#busy.then(work);
    this.#busy = done.catch(() => undefined);
    return done;
  }

  async #apply(target: RoleTarget, signal: AbortSignal): ReturnType<NodeHaproxy['bring']> {
    const { node, generations, onStep } = this.#parts;
    const haproxy = await findHaproxy(this.#parts.haproxy);
    const files = composed(target);
    const to = { name: generationName(files, localConfig(this.#parts.settings, null)), files };
    const alike = await this.#readCurrent().catch(() => null);
    await generations.write(to, localConfig(this.#parts.settings, to.name), alike);
    onStep('written');
    const brought = await node.bring(to, haproxy, signal, (from) => this.#localReasons(from));
    if (brought.how === 'runtime') this.#checkLater(to, haproxy);
    await generations.removeOld(GENERATIONS_KEPT, [to.name, await this.#loaded()]);
    return brought;
  }

  async #readCurrent(): Promise<Generation | null> {
    const { generations } = this.#parts;
    const name = await generations.current();
    return name === null ? null : generations.read(name);
  }

  /** The generation that the worker loaded at its start, which it may long have left by commands. */
  async #loaded(): Promise<Digest | null> {
    return (await findWorker(this.#parts.paths).catch(() => null))?.description ?? null;
  }

  /** What the node itself gives HAProxy is compared without the description, which always differs. */
  async #localReasons(from: Generation): Promise<readonly string[]> {
    const { generations, settings } = this.#parts;
    const text = await readFile(join(generations.folder(from.name), LOCAL_CONFIG), 'utf8').catch(() => '');
    return text === localConfig(settings, from.name) ? [] : ['configuration of this node changed'];
  }

  /** Files that were reached by commands are judged too, for the next start, but nobody waits for it. */
  #checkLater(generation: Generation, haproxy: InstalledHaproxy): void {
    const { generations, logger } = this.#parts;
    this.#checking = this.#checking.then(async () => {
      if ((await generations.current()) !== generation.name) return;
      try {
        await checkGeneration(generations, generation, haproxy, this.#closing.signal);
      } catch (thrown) {
        if (!this.#closing.signal.aborted) logger.error({ words: errorMessage(thrown) }, 'HAProxy runs files that it would not start with');
      }
    });
  }

  /** Between the core's looks: HAProxy that ended is started again, and removed servers are deleted once they are idle. */
  async #look(): Promise<void> {
    if (this.#watching) return;
    this.#watching = true;
    try {
      await this.#inTurn(() => this.#keepServing());
      this.#trouble = '';
    } catch (thrown) {
      const words = errorMessage(thrown);
      if (words !== this.#trouble && !this.#closing.signal.aborted) this.#parts.logger.error({ words }, 'HAProxy is not as it should be');
      this.#trouble = words;
    } finally {
      this.#watching = false;
    }
  }

  async #keepServing(): Promise<void> {
    const { node, paths, generations, logger } = this.#parts;
    if (this.#closing.signal.aborted || (await generations.current()) === null) return;
    await boundLog(paths);
    if ((await findWorker(paths)) === null) {
      const haproxy = await findHaproxy(this.#parts.haproxy);
      for (const what of await this.#repair(haproxy, this.#closing.signal, false)) logger.warn(`drift repaired: ${what}`);
    } else {
      await node.removals.attempt();
    }
  }

  async #repair(haproxy: InstalledHaproxy, signal: AbortSignal, compareServers: boolean): Promise<readonly string[]> {
    const { node } = this.#parts;
    const current = await this.#readCurrent();
    if (current === null) return [];
    const observed = await node.observe();
    if (observed === null) return [await this.#startAgain(current, haproxy, signal)];
    if (!node.mayReload()) return [];
    if (observed.generation?.name === current.name) return compareServers ? node.compareServers(observed, haproxy, signal) : [];
    await node.bring(current, haproxy, signal);
    return ['HAProxy ran another configuration than the one that was applied'];
  }

  /** With `current`, or, when HAProxy refuses that, with the generation used last that it accepted. */
  async #startAgain(current: Generation, haproxy: InstalledHaproxy, signal: AbortSignal): Promise<string> {
    const { node, generations, logger } = this.#parts;
    try {
      await node.bring(current, haproxy, signal);
      return 'HAProxy was not running; started it';
    } catch (thrown) {
      if (!(thrown instanceof HeadgateError) || thrown.code !== 'configuration-refused') throw thrown;
      for (const name of await generations.byLastUse()) {
        if (name === current.name || !(await generations.isChecked(name, haproxy.version))) continue;
        logger.error({ words: errorMessage(thrown) }, 'HAProxy refuses the configuration that ran; starting the one before it');
        await node.bring(await generations.read(name), haproxy, signal);
        return 'HAProxy was not running and refused its configuration; started an earlier one';
      }
      throw thrown;
    }
  }
}

function composed(target: RoleTarget): Files {
  try {
    return composeRouter(target.files);
  } catch (cause) {
    const code = cause instanceof HeadgateError ? cause.code : 'bad-content';
    throw new HeadgateError(code, 'plan', `version ${target.version} cannot be composed: ${errorMessage(cause)}`, { cause });
  }
}

function reasonsText(reasons: readonly string[]): string {
  const unnamed = reasons.length - REASONS_NAMED;
  return [...reasons.slice(0, REASONS_NAMED), ...(unnamed > 0 ? [`and ${unnamed} more`] : [])].join('; ');
}

function judged(thrown: unknown): Pick<RoleOutcome, 'outcome' | 'stage'> {
  if (!(thrown instanceof HeadgateError)) return { outcome: 'failed', stage: 'apply' };
  return { outcome: REFUSALS.has(thrown.code) ? 'refused' : 'failed', stage: thrown.stage };
}
