// Keeps HAProxy serving what was applied: starts it again when it ended, brings it back when somebody changed it, and gets
// rid of servers that were removed.

import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { Logger } from '../../shared/logger.ts';
import { findHaproxy, type InstalledHaproxy } from './capabilities.ts';
import type { Generation, Generations } from './generations.ts';
import type { NodeHaproxy } from './node-haproxy.ts';
import type { RouterPaths } from './paths.ts';
import { boundLog, findWorker } from './process.ts';

export interface KeepServingOptions {
  readonly node: NodeHaproxy;
  readonly generations: Generations;
  readonly paths: RouterPaths;
  readonly haproxy: string;
  readonly logger: Logger;
}

/** Of how many thorough looks one compares all servers. */
const COMPARE_EVERY = 10;

export class KeepServing {
  readonly #options: KeepServingOptions;
  #looks = 0;

  constructor(options: KeepServingOptions) {
    this.#options = options;
  }

  /** Cheap, for every few seconds: starts HAProxy when it is gone, else tries to delete removed servers. Gives what was repaired. */
  async glance(signal: AbortSignal): Promise<readonly string[]> {
    const { node, generations, paths } = this.#options;
    if ((await generations.current()) === null) return [];
    await boundLog(paths);
    if ((await findWorker(paths)) === null) return this.#repair(signal, false);
    await node.removals.attempt();
    return [];
  }

  /**
   * Compares what runs with what was applied, and now and then all servers. Gives what was repaired.
   * @throws HeadgateError `generation-missing` or `generation-damaged` (stage `apply`) when what was applied is no longer on disk
   */
  async look(signal: AbortSignal): Promise<readonly string[]> {
    this.#looks += 1;
    if ((await this.#options.generations.current()) === null) {
      throw new HeadgateError('generation-missing', 'apply', `${this.#options.paths.current} names no generation that is there`);
    }
    return this.#repair(signal, this.#looks % COMPARE_EVERY === 0);
  }

  async #repair(signal: AbortSignal, compareServers: boolean): Promise<readonly string[]> {
    const { node, generations } = this.#options;
    const name = await generations.current();
    if (name === null) return [];
    const haproxy = await findHaproxy(this.#options.haproxy);
    const observed = await node.observe();
    if (observed === null) {
      const generation = await generations.read(name);
      await generations.verify(generation);
      return [await this.#startAgain(generation, haproxy, signal)];
    }
    if (!node.mayReload()) return [];
    if (observed.generation?.name === name) return compareServers ? node.compareServers(observed, haproxy, signal) : [];
    await node.bring(await generations.read(name), haproxy, signal);
    return ['HAProxy ran another configuration than the one that was applied'];
  }

  /** With `current`, or, when HAProxy refuses that, with the generation used last that it accepted. */
  async #startAgain(current: Generation, haproxy: InstalledHaproxy, signal: AbortSignal): Promise<string> {
    const { node, generations, logger } = this.#options;
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
