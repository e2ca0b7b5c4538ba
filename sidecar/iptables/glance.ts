// A cheap look at the tables, whatever their size: the jumps in the built-in chains and the chains that they lead to. When
// it shows what it showed after our own commit, nobody flushed or reloaded the tables; rules deeper down need a comparison.

import { type Ruleset, TABLES, type TableState } from '../../shared/iptables/ruleset.ts';
import type { RunProgram } from '../run-program.ts';
import type { PerFamily } from './family-plans.ts';
import type { TableChange } from './plan.ts';
import { jumpTarget } from './save.ts';
import { programName, type Tool } from './tool.ts';

const LIMIT = 8 * 1024 * 1024;

/**
 * What the tool lists of those chains, in one process for each family that changes nothing; null when one of them is not there. Only to be
 * compared with another glance of the same rulesets.
 */
export async function glance(run: RunProgram, tool: Tool, rulesets: PerFamily<Ruleset>, signal?: AbortSignal): Promise<string | null> {
  const seen: string[] = [];
  for (const family of tool.families) {
    const { tables } = rulesets[family];
    const input = TABLES.map((table) => `*${table}\n${listings(tables[table])}COMMIT\n`).join('');
    const argv = [programName(tool.backEnd, family, 'restore'), '--noflush', '-w', '5'];
    const { code, stdout } = await run(argv, { input, outputLimit: LIMIT, ...(signal === undefined ? {} : { signal }) });
    if (code !== 0) return null;
    seen.push(...stdout.split('\n').filter(isOurs));
  }
  return seen.join('\n');
}

/** Whether a glance at the ruleset that a change led to shows the change. */
export function isSeen({ table, chains, deleteJumps, insertJumps }: TableChange, ruleset: Ruleset): boolean {
  if (deleteJumps.length + insertJumps.length > 0) return true;
  return chainsSeen(ruleset.tables[table]).some((chain) => chains.has(chain));
}

function listings(state: TableState): string {
  return chainsSeen(state)
    .map((chain) => `-S ${chain}\n`)
    .join('');
}

function chainsSeen({ jumps }: TableState): string[] {
  const chains = new Set<string>(jumps.map(({ chain }) => chain));
  for (const { rule } of jumps) chains.add(jumpTarget(rule) ?? '');
  chains.delete('');
  return [...chains];
}

/** Rules of others in the built-in chains come and go; they are no business of ours. */
function isOurs(line: string): boolean {
  return line.includes('KUBE-');
}
