// The router role: composes this node's files from a version's shards, makes HAProxy serve them, and keeps it serving.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Digest } from '../../shared/digest.ts';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { Files } from '../../shared/files.ts';
import type { Logger } from '../../shared/logger.ts';
import { composeRouter } from '../../shared/router/compose.ts';
import type { Drift, RoleApplier, RoleOutcome, RoleTarget } from '../role.ts';
import { findHaproxy, type InstalledHaproxy } from './capabilities.ts';
import { checkGeneration } from './check.ts';
import { type Generation, generationName, Generations, LOCAL_CONFIG } from './generations.ts';
import { KeepServing } from './keep-serving.ts';
import { localConfig, type LocalSettings } from './local-config.ts';
import { NodeHaproxy, type Step } from './node-haproxy.ts';
import { type RouterPaths, routerPaths } from './paths.ts';
import { prepareNode } from './prepare.ts';
import { findWorker } from './process.ts';
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
/** Reasons of a reload that are spelled out in a result. */
const REASONS_NAMED = 20;
/** Codes of errors that say that what was applied is no longer on disk. */
const FILES_LOST: ReadonlySet<string> = new Set(['generation-missing', 'generation-damaged']);
/** Codes of errors that say that the content is bad, not the node. */
const REFUSALS: ReadonlySet<string> = new Set(['configuration-refused', 'secret-missing', 'bad-content']);

/**
 * The applier of the router role. HAProxy is not touched before the first `apply`.
 * @throws HeadgateError `bad-state-directory` when HAProxy could not have its sockets below the state folder
 */
export async function haproxyRole(options: HaproxyRoleOptions): Promise<RoleApplier> {
  const { logger, haproxy, onStep = () => undefined, now = () => performance.now() } = options;
  const paths = routerPaths(options.stateDirectory);
  const settings = await prepareNode(paths, logger);
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
  const keepServing = new KeepServing({ node, generations, paths, haproxy, logger });
  const watchMs = options.watchMs ?? 2_000;
  return new HaproxyRole({ node, paths, generations, keepServing, settings, haproxy, watchMs, logger, now, onStep });
}

interface HaproxyRoleParts {
  readonly node: NodeHaproxy;
  readonly paths: RouterPaths;
  readonly generations: Generations;
  readonly keepServing: KeepServing;
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
    try {
      return { repaired: await this.#inTurn(() => this.#parts.keepServing.look(signal)) };
    } catch (thrown) {
      if (!(thrown instanceof HeadgateError) || !FILES_LOST.has(thrown.code)) throw thrown;
      return { repaired: [`${errorMessage(thrown)}: applying again`], lost: true };
    }
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
    const name = await generations.current();
    const alike = name === null ? null : await generations.read(name).catch(() => null);
    const wasDamaged = await generations.write(to, localConfig(this.#parts.settings, to.name), alike);
    onStep('written');
    // HAProxy may have loaded what was there.
    const damage = wasDamaged ? ['files of this node were damaged'] : [];
    const brought = await node.bring(to, haproxy, signal, async (from) => [...damage, ...(await this.#localReasons(from))]);
    if (brought.how === 'runtime') this.#checkLater(to, haproxy);
    await this.#removeOld(to.name);
    return brought;
  }

  /** Of what HAProxy runs, the generation that it loaded at its start is kept too, which it may long have left by commands. */
  async #removeOld(running: Digest): Promise<void> {
    const { generations, paths, logger } = this.#parts;
    try {
      await generations.removeOld(GENERATIONS_KEPT, [running, (await findWorker(paths))?.description ?? null]);
    } catch (thrown) {
      logger.warn({ error: errorMessage(thrown) }, 'old generations could not be removed');
    }
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
    const { keepServing, logger } = this.#parts;
    const { signal } = this.#closing;
    if (this.#watching || signal.aborted) return;
    this.#watching = true;
    try {
      for (const what of await this.#inTurn(() => keepServing.glance(signal))) logger.warn(`drift repaired: ${what}`);
      this.#trouble = '';
    } catch (thrown) {
      const words = errorMessage(thrown);
      if (words !== this.#trouble && !signal.aborted) logger.error({ words }, 'HAProxy is not as it should be');
      this.#trouble = words;
    } finally {
      this.#watching = false;
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
