// Takes the service proxy's rules off a node: every chain and jump that we ever write, in whichever back end, and nothing
// else. For `sidecar --cleanup`.

import { FAMILIES } from '../../shared/endpoint.ts';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import { isOursAlone, isOwnChain } from '../../shared/iptables/chain-names.ts';
import { TABLES } from '../../shared/iptables/ruleset.ts';
import type { Logger } from '../../shared/logger.ts';
import { type RunProgram, runProgram } from '../run-program.ts';
import type { FamilyChange } from './family-plans.ts';
import { hasCanary } from './kube-proxy-left-overs.ts';
import { planRemoval } from './plan.ts';
import { restore } from './restore.ts';
import { turnOffRouteLocalnet } from './route-localnet.ts';
import { parseSave, type SavedRules } from './save.ts';
import { type InstalledTool, installedTools, saveText } from './tool.ts';

export interface Cleaned {
  readonly chains: number;
  readonly jumps: number;
}

export interface CleanupOptions {
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** kube-proxy serves the node now: in the families where it does, chains whose names it shares with us are its own, and stay. */
  readonly kubeProxyRuns: boolean;
  readonly run?: RunProgram;
}

/**
 * Removes the rules. Chains that somebody else's rules jump to stay, empty, and are logged.
 * @throws HeadgateError `rules-in-use` (stage `check`) when kube-proxy runs and has not replaced our rules yet: nothing is removed then;
 *   `cleanup-incomplete` (stage `apply`) when a table could not be cleaned; the others are
 */
export async function cleanupIptables({ logger, signal, kubeProxyRuns, run = runProgram }: CleanupOptions): Promise<Cleaned> {
  const found = await savedOf(run, kubeProxyRuns, signal);
  if (kubeProxyRuns) refuseRulesInUse(found);
  if (found.some(({ saved }) => guardsLocalhost(saved))) await turnOffRouteLocalnet(run);
  const cleaned = { chains: 0, jumps: 0 };
  const failures: string[] = [];
  for (const { tool, family, change } of found.flatMap(removals)) {
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

interface Found {
  readonly tool: InstalledTool;
  /** Of our chains; only of those that are ours alone where kube-proxy serves. */
  readonly saved: SavedRules;
  readonly shared: boolean;
}

async function savedOf(run: RunProgram, kubeProxyRuns: boolean, signal: AbortSignal): Promise<Found[]> {
  const found: Found[] = [];
  for (const tool of await installedTools(run, signal)) {
    for (const family of FAMILIES) {
      const text = await saveText(run, tool.backEnd, family, signal);
      const shared = kubeProxyRuns && hasCanary(text);
      found.push({ tool, shared, saved: parseSave(family, text, shared ? isOursAlone : isOwnChain) });
    }
  }
  return found;
}

function refuseRulesInUse(found: readonly Found[]): void {
  const shared = found.filter(({ shared: isShared }) => isShared);
  const inUse = shared.some(({ saved }) => TABLES.some((table) => saved.tables[table].held.size > 0));
  if (shared.length > 0 && !inUse) return;
  const message = 'kube-proxy runs and has not replaced our rules yet; wait for its first sync and run it again';
  throw new HeadgateError('rules-in-use', 'check', message);
}

/** Localhost node ports were on, so that this node takes packets to 127/8 from others once the guard is gone. */
function guardsLocalhost({ tables }: SavedRules): boolean {
  return [...tables.filter.chains.values()].flat().some((rule) => rule.includes('-d 127.0.0.0/8') && rule.endsWith('-j DROP'));
}

function removals({ tool, saved }: Found): (FamilyChange & { readonly tool: InstalledTool })[] {
  return planRemoval(saved).map((change) => ({ tool, family: saved.family, change }));
}
