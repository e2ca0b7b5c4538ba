// A ruleset as input of iptables-restore.

import { countRules } from './chain-parts.ts';
import { type BuiltInJump, type Ruleset, type Table, TABLES, type TableState } from './ruleset.ts';

export interface FullRestoreOptions {
  /**
   * nat begins with `-S` (prints the table on standard output) and declares its built-in chains: without it iptables-nft takes quadratic time
   * to load a large table. The built-in chains of filter are never declared: that would overwrite an administrator's policies.
   */
  readonly listFirst?: boolean;
  /** False: without the jumps in built-in chains, for whoever makes sure of them one by one. */
  readonly jumps?: boolean;
}

/**
 * The whole ruleset for `iptables-restore --noflush`, from empty tables or over an earlier ruleset: declaring a chain empties it, so
 * loading twice leaves our chains as they were. Only the jumps in built-in chains stand twice then. Chains of an earlier ruleset that this one
 * does not have stay.
 */
export function fullRestoreText(ruleset: Ruleset, options: FullRestoreOptions = {}): string {
  return TABLES.map((table) => tableText(table, ruleset.tables[table], options)).join('');
}

/** Rules of nat that iptables-nft loads within a second without a listing; eight times as many take minutes. */
const MOST_WITHOUT_LISTING = 10_000;

/** The whole ruleset as a file that either back end loads: a large one begins nat with a listing, a small one is rules alone. */
export function restoreFileText(ruleset: Ruleset): string {
  return fullRestoreText(ruleset, { listFirst: countRules(ruleset.tables.nat.chains) > MOST_WITHOUT_LISTING });
}

function tableText(table: Table, state: TableState, { listFirst = false, jumps = true }: FullRestoreOptions): string {
  const listing = listFirst && table === 'nat' ? ['-S', ...NAT_BUILT_IN.map((chain) => `:${chain} ACCEPT [0:0]`)] : [];
  const lines = [`*${table}`, ...listing, ...chainLines(state.chains), ...(jumps ? insertedJumps(state.jumps) : []), 'COMMIT'];
  return `${lines.join('\n')}\n`;
}

const NAT_BUILT_IN = ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'] as const;

/** Declares the chains (each is created, or emptied when it is there), then gives them their rules. */
export function* chainLines(chains: TableState['chains']): Generator<string, undefined> {
  for (const chain of chains.keys()) yield `:${chain} - [0:0]`;
  for (const [chain, rules] of chains) for (const rule of rules) yield `-A ${chain} ${rule}`;
}

/** Each goes before what stands in its chain, the last one first: so they end up in their order. */
export function insertedJumps(jumps: readonly BuiltInJump[]): string[] {
  return jumps.toReversed().map((jump) => `-I ${jump.chain} ${jump.rule}`);
}
