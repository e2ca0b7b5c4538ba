// The plans of both families together: their changes in order, counts of them, and words for the log.

import { FAMILIES, type Family } from '../../shared/endpoint.ts';
import type { Plan, TableChange } from './plan.ts';
import { restoreText } from './restore.ts';

export type PerFamily<T> = Readonly<Record<Family, T>>;

export interface FamilyChange {
  readonly family: Family;
  readonly change: TableChange;
}

/** Repairs that are spelled out. */
const REPAIRS_NAMED = 20;

export function perFamily<T>(valueOf: (family: Family) => T): PerFamily<T> {
  return { IPv4: valueOf('IPv4'), IPv6: valueOf('IPv6') };
}

/** All changes in the order in which they are committed. */
export function changesOf(plans: PerFamily<Plan>): FamilyChange[] {
  return FAMILIES.flatMap((family) => plans[family].map((change) => ({ family, change })));
}

/** One text for all changes: equal texts are equal changes; empty when there are none. */
export function plansText(plans: PerFamily<Plan>): string {
  return changesOf(plans)
    .map(({ family, change }) => `# ${family}\n${restoreText(change)}`)
    .join('');
}

/** How many chains are written, and how many are removed. */
export function countChains(plans: PerFamily<Plan>): { readonly chainsWritten: number; readonly chainsRemoved: number } {
  const changes = changesOf(plans).map(({ change }) => change);
  const chainsRemoved = changes.reduce((count, change) => count + change.removeChains.length, 0);
  const chainsWritten = changes.reduce((count, change) => count + change.chains.size, 0) - chainsRemoved;
  return { chainsWritten, chainsRemoved };
}

/** What the changes do, a line each; the last line counts those beyond the first twenty. */
export function describeChanges(plans: PerFamily<Plan>): string[] {
  const lines = changesOf(plans).flatMap(({ family, change }) => {
    const place = `${family} ${change.table}`;
    const removed = new Set(change.removeChains);
    return [
      ...[...change.chains.keys()].filter((chain) => !removed.has(chain)).map((chain) => `${place}: wrote chain ${chain}`),
      ...change.removeChains.map((chain) => `${place}: removed chain ${chain}`),
      ...change.insertJumps.map(({ chain, rule }) => `${place}: put back in ${chain}: ${rule}`),
      ...change.deleteJumps.map(({ chain, rule }) => `${place}: took out of ${chain}: ${rule}`),
    ];
  });
  const unnamed = lines.length - REPAIRS_NAMED;
  return unnamed > 0 ? [...lines.slice(0, REPAIRS_NAMED), `and ${unnamed} more`] : lines;
}
