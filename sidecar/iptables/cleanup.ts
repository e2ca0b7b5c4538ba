// Takes the service proxy's rules off a node: every chain and jump that we ever write, in whichever back end, and nothing
// else. For `sidecar --cleanup`.

import { FAMILIES } from '../../shared/endpoint.ts';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { Logger } from '../../shared/logger.ts';
import { type RunProgram, runProgram } from '../run-program.ts';
import type { FamilyChange } from './family-plans.ts';
import { planRemoval } from './plan.ts';
import { restore } from './restore.ts';
import { parseSave } from './save.ts';
import { type InstalledTool, installedTools, saveText } from './tool.ts';

export interface Cleaned {
  readonly chains: number;
  readonly jumps: number;
}

/**
 * Removes the rules. Chains that somebody else's rules jump to stay, empty, and are logged.
 * @throws HeadgateError `cleanup-incomplete` (stage `apply`) when a table could not be cleaned; the others are
 */
export async function cleanupIptables(logger: Logger, signal: AbortSignal, run: RunProgram = runProgram): Promise<Cleaned> {
  const cleaned = { chains: 0, jumps: 0 };
  const failures: string[] = [];
  for (const { tool, family, change } of await removals(run, signal)) {
    signal.throwIfAborted();
    const kept = [...change.chains.keys()].filter((chain) => !change.removeChains.includes(chain));
    if (kept.length > 0) logger.warn({ family, table: change.table, chains: kept }, 'chains that other rules refer to stay, empty');
    try {
      await restore(run, tool, family, change, 'full');
      cleaned.chains += change.removeChains.length;
      cleaned.jumps += change.deleteJumps.length;
    } catch (error) {
      failures.push(errorMessage(error));
    }
  }
  if (failures.length === 0) return cleaned;
  throw new HeadgateError('cleanup-incomplete', 'apply', `not all rules could be removed; run it again: ${failures.join('; ')}`);
}

interface Removal extends FamilyChange {
  readonly tool: InstalledTool;
}

async function removals(run: RunProgram, signal: AbortSignal): Promise<Removal[]> {
  const found: Removal[] = [];
  for (const tool of await installedTools(run, signal)) {
    for (const family of FAMILIES) {
      const saved = parseSave(family, await saveText(run, tool.backEnd, family, signal));
      found.push(...planRemoval(saved).map((change) => ({ tool, family, change })));
    }
  }
  return found;
}
