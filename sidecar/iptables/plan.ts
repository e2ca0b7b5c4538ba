// How a node gets from one ruleset to another: per table the chains to write, the jumps to put in or take out, the chains
// to remove. Pure. A table is committed at once but the tables are not, hence the order: filter with the old rules and the new
// ones, nat, filter without the old ones. So REJECT and DROP stand until nat covers what they guard.

import { withoutSharedParts, withOthers } from '../../shared/iptables/chain-parts.ts';
import { normaliseRule } from '../../shared/iptables/normalise.ts';
import type { BuiltInJump, Rule, Ruleset, Table, TableState } from '../../shared/iptables/ruleset.ts';
import type { SavedRules, SavedTable } from './save.ts';

/** One commit of one table. */
export interface TableChange {
  readonly table: Table;
  /** Policies of the built-in chains that jumps go into, as they are: what a load that lists the table first must declare. */
  readonly policies: ReadonlyMap<string, string>;
  /** Chains to create or to empty, and their rules. */
  readonly chains: ReadonlyMap<string, readonly Rule[]>;
  readonly deleteJumps: readonly BuiltInJump[];
  /** Each goes to the top of its built-in chain, in this order, as kube-proxy puts them. */
  readonly insertJumps: readonly BuiltInJump[];
  /** Chains to delete; they are in `chains` too, emptied, so that none refers to another. */
  readonly removeChains: readonly string[];
}

/** Changes of one family in the order in which they are committed; empty when nothing differs. */
export type Plan = readonly TableChange[];

/** Writes all of `next` over what was read back; what an earlier run left is removed. */
export function planFull(saved: SavedRules, next: Ruleset): Plan {
  return plan(saved, next, { scope: 'all', key: normaliseRule });
}

/** Writes only what differs from what was read back: the repair of drift. */
export function planRepair(saved: SavedRules, applied: Ruleset): Plan {
  return plan(saved, applied, { scope: 'changed', key: normaliseRule });
}

/** Writes only what differs from the ruleset that was applied last. */
export function planPartial(applied: Ruleset, next: Ruleset): Plan {
  const [before, after] = withoutSharedNat(applied, next);
  return plan(before, after, { scope: 'changed', key: (rule) => rule });
}

/** Takes out every chain and jump that was read back; a chain that somebody else's rules refer to stays, empty. */
export function planRemoval(saved: SavedRules): Plan {
  const nothing: TableState = { chains: new Map(), jumps: [] };
  const means: Means = { scope: 'changed', key: (rule) => rule };
  const nat = changeTable('nat', saved.tables.nat, nothing, means);
  const filter = changeTable('filter', saved.tables.filter, nothing, means);
  return [nat, filter].filter((change) => change !== null);
}

/** Both without those chains of nat, the large table, that cannot differ. */
function withoutSharedNat(one: Ruleset, other: Ruleset): readonly [one: Ruleset, other: Ruleset] {
  const chains = withoutSharedParts(one.tables.nat.chains, other.tables.nat.chains);
  const withNat = (ruleset: Ruleset, its: TableState['chains']): Ruleset => ({
    ...ruleset,
    tables: { ...ruleset.tables, nat: { ...ruleset.tables.nat, chains: its } },
  });
  return [withNat(one, chains[0]), withNat(other, chains[1])];
}

interface Means {
  readonly scope: 'all' | 'changed';
  /** Rules with one key are one rule. */
  readonly key: (rule: Rule) => string;
}

function plan(present: Ruleset | SavedRules, next: Ruleset, means: Means): Plan {
  const both = withAdditions(present.tables.filter, next.tables.filter, means.key);
  const additions = changeTable('filter', present.tables.filter, both, means);
  const nat = changeTable('nat', present.tables.nat, next.tables.nat, means);
  const held = 'held' in present.tables.filter ? present.tables.filter.held : new Set<string>();
  const between = { ...both, held, policies: new Map<string, string>() };
  const removals = changeTable('filter', between, next.tables.filter, { ...means, scope: 'changed' });
  return [additions, nat, removals].filter((change) => change !== null);
}

/** The table with the rules of both: in each chain the next ones and then those that are to go. */
function withAdditions(present: TableState, next: TableState, key: Means['key']): TableState {
  const chains = new Map(present.chains);
  for (const [chain, rules] of next.chains) chains.set(chain, rulesOfBoth(present.chains.get(chain) ?? [], rules, key));
  const wanted = new Set(next.jumps.map((jump) => jumpKey(jump, key)));
  return { chains, jumps: [...next.jumps, ...present.jumps.filter((jump) => !wanted.has(jumpKey(jump, key)))] };
}

function rulesOfBoth(present: readonly Rule[], next: readonly Rule[], key: Means['key']): readonly Rule[] {
  const wanted = new Set(next.map(key));
  const leaving = present.filter((rule) => !wanted.has(key(rule)));
  if (leaving.length === 0) return next;
  const here = new Set(present.map(key));
  const onlyRemovals = [...wanted].every((rule) => here.has(rule));
  return onlyRemovals ? present : [...next, ...leaving];
}

function changeTable(table: Table, present: TableState | SavedTable, next: TableState, { scope, key }: Means): TableChange | null {
  const held = 'held' in present ? present.held : new Set<string>();
  const stale = staleChains(present, next);
  const removeChains = stale.filter((chain) => !held.has(chain));
  const emptied = stale.filter((chain) => !held.has(chain) || present.chains.get(chain)?.length !== 0);
  const written = scope === 'all' ? next.chains : changedChains(present, next, key);
  const chains = withOthers(written, new Map(emptied.map((chain) => [chain, []])));
  const { deleteJumps, insertJumps } = changeJumps(present.jumps, next.jumps, key);
  if (chains.size + deleteJumps.length + insertJumps.length === 0) return null;
  return { table, policies: policiesOf(present, insertJumps), chains, deleteJumps, insertJumps, removeChains };
}

/** Usually none: then no list of all chains is made to find that out. */
function staleChains(present: TableState, next: TableState): string[] {
  let kept = 0;
  for (const chain of next.chains.keys()) if (present.chains.has(chain)) kept += 1;
  if (kept === present.chains.size) return [];
  const wanted = new Set(next.chains.keys());
  return [...present.chains.keys()].filter((chain) => !wanted.has(chain));
}

function changedChains(present: TableState, next: TableState, key: Means['key']): Map<string, readonly Rule[]> {
  const changed = new Map<string, readonly Rule[]>();
  for (const [chain, rules] of next.chains) {
    if (!sameRules(present.chains.get(chain), rules, key)) changed.set(chain, rules);
  }
  return changed;
}

function sameRules(present: readonly Rule[] | undefined, next: readonly Rule[], key: Means['key']): boolean {
  if (present === next) return true;
  if (present?.length !== next.length) return false;
  return next.every((rule, index) => rule === present[index] || key(rule) === key(present[index] ?? ''));
}

/** Each wanted jump is to be there once, wherever it stands among the rules of others. */
function changeJumps(
  present: readonly BuiltInJump[],
  next: readonly BuiltInJump[],
  key: Means['key'],
): Pick<TableChange, 'deleteJumps' | 'insertJumps'> {
  const missing = new Map(next.map((jump) => [jumpKey(jump, key), jump]));
  const deleteJumps = present.filter((jump) => !missing.delete(jumpKey(jump, key)));
  return { deleteJumps, insertJumps: [...missing.values()] };
}

function jumpKey(jump: BuiltInJump, key: Means['key']): string {
  return `${jump.chain} ${key(jump.rule)}`;
}

function policiesOf(present: TableState | SavedTable, jumps: readonly BuiltInJump[]): Map<string, string> {
  const saved = 'policies' in present ? present.policies : new Map<string, string>();
  return new Map(jumps.map(({ chain }) => [chain, saved.get(chain) ?? 'ACCEPT']));
}
