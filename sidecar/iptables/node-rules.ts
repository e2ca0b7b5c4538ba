// The rules of the service proxy on this node: knows what was written last, writes the next ruleset by the smallest change
// that does it, goes back when the node refuses it, and puts right what others changed.

import { FAMILIES, type Family } from '../../shared/endpoint.ts';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import { isOwnChain } from '../../shared/iptables/chain-names.ts';
import type { ProxyState } from '../../shared/iptables/ruleset.ts';
import type { Logger } from '../../shared/logger.ts';
import type { RunProgram } from '../run-program.ts';
import { changesOf, countChains, describeChanges, type PerFamily, perFamily, plansText } from './family-plans.ts';
import { glance, isSeen } from './glance.ts';
import { type Plan, planFull, planPartial, planRepair } from './plan.ts';
import { isOwnOrStale, type LeftOvers, removeLeftOvers } from './kube-proxy-left-overs.ts';
import { NOTHING, type ReadBack, readBack } from './read-back.ts';
import { isAnswer, restore } from './restore.ts';
import type { SavedRules } from './save.ts';
import { udpAddresses } from './saved-udp.ts';
import { detectTool, type Tool } from './tool.ts';

export type Rulesets = ProxyState['rulesets'];

export interface Written {
  readonly how: 'restore' | 'partial' | 'unchanged';
  readonly chainsWritten: number;
  readonly chainsRemoved: number;
}

export interface NodeRulesOptions {
  readonly run: RunProgram;
  readonly logger: Logger;
  /** Milliseconds on a clock that only goes forward. */
  readonly now?: () => number;
  /** iptables-restore failed. */
  readonly onRestoreFailed?: (load: 'full' | 'partial') => void;
}

/** A comparison reads all rules back: at most this share of the time is spent on it. */
const COMPARISON_SHARE = 0.01;

export class NodeRules {
  readonly #run: RunProgram;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #onRestoreFailed: (load: 'full' | 'partial') => void;
  #tool: Tool | null = null;
  #written: Rulesets | null = null;
  #udpFound: readonly string[] = [];
  /** False: the node may hold something else than `#written`, so the next write is a full one. */
  #certain = false;
  /** The commit that failed last may have changed something. */
  #touched = false;
  #glanced: string | null = null;
  #compareFrom = 0;
  /** A difference that a repair did not settle: it is in how rules are read, not in the rules. */
  #unsettled = '';

  constructor({ run, logger, now = () => performance.now(), onRestoreFailed = () => {} }: NodeRulesOptions) {
    this.#run = run;
    this.#logger = logger;
    this.#now = now;
    this.#onRestoreFailed = onRestoreFailed;
  }

  /** What was written last; null before the first time. */
  get written(): Rulesets | null {
    return this.#written;
  }

  /** UDP addresses that the rules served which the first write found on the node. */
  get udpFound(): readonly string[] {
    return this.#udpFound;
  }

  /** The node's iptables, found once. Throws as `detectTool` does. */
  async tool(signal: AbortSignal): Promise<Tool> {
    if (this.#tool !== null) return this.#tool;
    const tool = await detectTool(this.#run, signal);
    if (!tool.families.includes('IPv6')) this.#logger.warn('this kernel does not filter IPv6; IPv6 services are left out on this node');
    this.#tool = tool;
    return tool;
  }

  /**
   * Makes the node hold these rulesets: only the chains that changed; all of them the first time, and when the smaller change did not
   * work. When that does not work either, the node holds what it held before, and this throws.
   * @throws HeadgateError `rules-refused`, `restore-failed`, `tables-locked` (stage `apply`), and those of `tool` and `saveText`. The
   *   signal's reason when aborted before the first commit; later it is not looked at, so that a write is whole
   */
  async write(next: Rulesets, signal: AbortSignal): Promise<Written> {
    const tool = await this.tool(signal);
    const written = (this.#certain ? await this.#writePartial(tool, next, signal) : null) ?? (await this.#writeFull(tool, next, signal));
    if (written.how === 'unchanged') return written;
    this.#unsettled = '';
    this.#glanced ??= await glance(this.#run, tool, next);
    return written;
  }

  /**
   * Compares the node's rules with what was written and puts right what differs; rules of others are left alone. Cheap when a glance shows
   * no change and the last thorough comparison is recent. Returns what was put right, a line each.
   */
  async repair(signal: AbortSignal): Promise<string[]> {
    const rulesets = this.#written;
    if (rulesets === null) return [];
    const tool = await this.tool(signal);
    const glanced = await glance(this.#run, tool, rulesets, signal);
    if (glanced !== null && glanced === this.#glanced && this.#now() < this.#compareFrom) return [];
    const plans = await this.#differences(tool, rulesets, signal);
    this.#glanced = glanced;
    const text = plansText(plans);
    if (text === '' || text === this.#unsettled) return [];
    await this.#commit(tool, plans, 'partial');
    const left = await this.#differences(tool, rulesets, signal);
    this.#unsettled = plansText(left);
    if (this.#unsettled !== '') {
      this.#logger.warn(
        { differences: describeChanges(left) },
        'rules that were just written read back as others; left as they are until the next content',
      );
    }
    this.#glanced = await glance(this.#run, tool, rulesets, signal);
    return describeChanges(plans);
  }

  async #writePartial(tool: Tool, next: Rulesets, signal: AbortSignal): Promise<Written | null> {
    const before = this.#written;
    if (before === null) return null;
    const plans = plansFor(tool, (family) => planPartial(before[family], next[family]));
    signal.throwIfAborted();
    if (!(await this.#commitLess(tool, plans))) return null;
    if (changesOf(plans).some(({ family, change }) => isSeen(change, next[family]))) this.#glanced = null;
    this.#written = next;
    return { how: changesOf(plans).length === 0 ? 'unchanged' : 'partial', ...countChains(plans) };
  }

  async #writeFull(tool: Tool, next: Rulesets, signal: AbortSignal): Promise<Written> {
    const first = this.#written === null;
    const found = await this.#readIfAny(tool, signal, first ? isOwnOrStale : isOwnChain);
    const { saved, leftOvers } = found ?? NOTHING;
    signal.throwIfAborted();
    this.#glanced = null;
    const before = this.#written ?? found?.saved ?? null;
    const written =
      (first && holdsChains(saved) ? await this.#writeDifferences(tool, saved, next) : null) ??
      (await this.#writeAll(tool, saved, next, before));
    if (first) {
      this.#udpFound = FAMILIES.flatMap((family) => udpAddresses(saved[family]));
      await this.#removeLeftOvers(tool, leftOvers);
    }
    this.#certain = true;
    this.#written = next;
    return written;
  }

  /** After a start the node holds most of it already. Null when that did not work. */
  async #writeDifferences(tool: Tool, saved: PerFamily<SavedRules>, next: Rulesets): Promise<Written | null> {
    const plans = plansFor(tool, (family) => planRepair(saved[family], next[family]));
    return (await this.#commitLess(tool, plans)) ? { how: 'restore', ...countChains(plans) } : null;
  }

  /** @param before what to go back to when it fails on the way; null: that is not known */
  async #writeAll(tool: Tool, saved: PerFamily<SavedRules>, next: Rulesets, before: Rulesets | null): Promise<Written> {
    const touched = this.#touched;
    const plans = plansFor(tool, (family) => planFull(saved[family], next[family]));
    try {
      await this.#commit(tool, plans, 'full');
    } catch (error) {
      const isChanged = this.#written === null ? touched || this.#touched : !this.#certain;
      if (isChanged && before !== null) await this.#revert(tool, before);
      throw error;
    }
    return { how: 'restore', ...countChains(plans) };
  }

  /** False when it did not work, and all is to be written. */
  async #commitLess(tool: Tool, plans: PerFamily<Plan>): Promise<boolean> {
    try {
      await this.#commit(tool, plans, 'partial');
      return true;
    } catch (error) {
      if (!this.#touched && error instanceof HeadgateError && error.code === 'tables-locked') throw error;
      this.#logger.warn({ error: errorMessage(error) }, 'changed chains could not be written; writing all of them');
      return false;
    }
  }

  /** Writes what was there before again. It is tried once: the next write is a full one in any case when it fails. */
  async #revert(tool: Tool, before: Rulesets): Promise<void> {
    try {
      const { saved } = await readBack(this.#run, tool);
      await this.#commit(
        tool,
        plansFor(tool, (family) => planFull(saved[family], before[family])),
        'full',
      );
      this.#certain = this.#written !== null;
    } catch (error) {
      this.#logger.error({ error: errorMessage(error) }, 'the rules of before could not be put back; the next content is written in full');
    }
  }

  async #commit(tool: Tool, plans: PerFamily<Plan>, load: 'full' | 'partial'): Promise<void> {
    this.#touched = false;
    try {
      for (const { family, change } of changesOf(plans)) {
        await restore(this.#run, tool, family, change, load);
        this.#touched = true;
      }
    } catch (error) {
      this.#touched ||= !isAnswer(error);
      this.#certain &&= !this.#touched;
      this.#onRestoreFailed(load);
      throw error;
    }
  }

  async #removeLeftOvers(tool: Tool, leftOvers: PerFamily<LeftOvers>): Promise<void> {
    for (const family of tool.families) {
      await removeLeftOvers(this.#run, tool, family, leftOvers[family]).catch((error: unknown) => {
        this.#logger.info({ family, error: errorMessage(error) }, 'chains that kube-proxy left could not be removed');
      });
    }
  }

  /** What a repair would write. */
  async #differences(tool: Tool, rulesets: Rulesets, signal: AbortSignal): Promise<PerFamily<Plan>> {
    const started = this.#now();
    const { saved } = await readBack(this.#run, tool, signal);
    const plans = plansFor(tool, (family) => planRepair(saved[family], rulesets[family]));
    const ended = this.#now();
    this.#compareFrom = ended + (ended - started) / COMPARISON_SHARE;
    return plans;
  }

  /** Null when the tool cannot save: then all is written over whatever is there, and the next repair takes out what is too much. */
  async #readIfAny(tool: Tool, signal: AbortSignal, ours: (chain: string) => boolean): Promise<ReadBack | null> {
    try {
      return await readBack(this.#run, tool, signal, ours);
    } catch (error) {
      signal.throwIfAborted();
      this.#logger.warn({ error: errorMessage(error) }, 'the present rules cannot be read; writing all of ours over them');
      this.#compareFrom = 0;
      return null;
    }
  }
}

function plansFor(tool: Tool, planOf: (family: Family) => Plan): PerFamily<Plan> {
  return perFamily((family) => (tool.families.includes(family) ? planOf(family) : []));
}

function holdsChains(saved: PerFamily<SavedRules>): boolean {
  return FAMILIES.some((family) => saved[family].tables.nat.chains.size > 0);
}
