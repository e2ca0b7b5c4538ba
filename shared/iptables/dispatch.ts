// Dispatch: entries spread over sub-chains by the last byte of their address, or by blocks of node ports. A change rewrites one
// short chain, and a packet walks one.

import type { Family } from '../endpoint.ts';
import { compareText } from '../json.ts';
import { lastByte } from './addresses.ts';
import { nodePortChain } from './chain-names.ts';
import { printRule, type RuleParts } from './rule.ts';
import type { Rule } from './ruleset.ts';
import type { AddressEntry, NodePortEntry } from './service-entries.ts';

export interface DispatchChains {
  /** What the parent chain holds: one rule for each sub-chain in use. */
  readonly jumps: readonly Rule[];
  readonly chains: ReadonlyMap<string, readonly Rule[]>;
}

/** At most 256 sub-chains, named by the prefix and two hex digits. Entries stand in each in the order of their addresses. */
export function dispatchByAddress(prefix: string, family: Family, entries: readonly AddressEntry[]): DispatchChains {
  return spread(
    entries,
    byAddress,
    ({ address }) => lastByte(address),
    (byte) => ({ chain: prefix + byte.toString(16).padStart(2, '0'), jump: { destination: lastByteMatch(family, byte) } }),
  );
}

/** Node ports of one sub-chain. */
const BLOCK = 64;

/** A sub-chain for each 64 node ports of a protocol. */
export function dispatchByNodePort(entries: readonly NodePortEntry[]): DispatchChains {
  const protocols = [...new Set(entries.map(({ protocol }) => protocol))].sort();
  const spreads = protocols.map((protocol) =>
    spread(
      entries.filter((entry) => entry.protocol === protocol),
      byNodePort,
      ({ nodePort }) => nodePort - (nodePort % BLOCK),
      (from) => ({ chain: nodePortChain(protocol, from), jump: { protocol, port: { from, to: from + BLOCK - 1 } } }),
    ),
  );
  return { jumps: spreads.flatMap(({ jumps }) => jumps), chains: new Map(spreads.flatMap(({ chains }) => [...chains])) };
}

function spread<Entry extends { readonly rule: Rule }>(
  entries: readonly Entry[],
  order: (a: Entry, b: Entry) => number,
  slotOf: (entry: Entry) => number,
  describe: (slot: number) => { readonly chain: string; readonly jump: Omit<RuleParts, 'jump'> },
): DispatchChains {
  const slots = new Map<number, Entry[]>();
  for (const entry of entries) {
    const slot = slotOf(entry);
    const others = slots.get(slot);
    if (others === undefined) slots.set(slot, [entry]);
    else others.push(entry);
  }
  const sorted = [...slots]
    .sort(([a], [b]) => a - b)
    .map(([slot, its]) => ({ ...describe(slot), rules: its.sort(order).map(({ rule }) => rule) }));
  return {
    jumps: sorted.map(({ chain, jump }) => printRule({ ...jump, jump: [chain] })),
    chains: new Map(sorted.map(({ chain, rules }) => [chain, rules])),
  };
}

function byAddress(a: AddressEntry, b: AddressEntry): number {
  return compareText(a.address, b.address) || compareText(a.rule, b.rule);
}

function byNodePort(a: NodePortEntry, b: NodePortEntry): number {
  return a.nodePort - b.nodePort || compareText(a.rule, b.rule);
}

function lastByteMatch(family: Family, byte: number): string {
  return family === 'IPv4' ? `0.0.0.${byte}/0.0.0.255` : `::${byte === 0 ? '' : byte.toString(16)}/::ff`;
}
