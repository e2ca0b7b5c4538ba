// The chains of a large table: what a node always has, and a part for each shard of services. A part is packed as one text, which
// takes a fifth of the memory of its rules as values, and stays the same object while its shard does: two tables are compared by
// the parts that they do not share.

import type { Rule, TableState } from './ruleset.ts';

export type Chain = readonly [name: string, rules: readonly Rule[]];

/** Chains with their rules. Made by `packChains`. */
export interface ChainPart {
  /** A line for each chain: its name and its rules, with tabs between. Neither tabs nor line feeds stand in a printed rule. */
  readonly text: string;
  readonly chains: number;
  readonly rules: number;
}

export function packChains(chains: readonly Chain[]): ChainPart {
  return {
    text: chains.map(([name, rules]) => [name, ...rules].join('\t')).join('\n'),
    chains: chains.length,
    rules: chains.reduce((count, [, rules]) => count + rules.length, 0),
  };
}

/** Chains with their rules that are unpacked when they are asked for. */
export abstract class UnpackedChains implements ReadonlyMap<string, readonly Rule[]> {
  abstract get size(): number;
  abstract get(chain: string): readonly Rule[] | undefined;
  abstract has(chain: string): boolean;
  abstract keys(): Generator<string, undefined>;
  abstract entries(): Generator<[string, readonly Rule[]], undefined>;

  *values(): Generator<readonly Rule[], undefined> {
    for (const [, rules] of this.entries()) yield rules;
  }

  [Symbol.iterator](): Generator<[string, readonly Rule[]], undefined> {
    return this.entries();
  }

  forEach(each: (rules: readonly Rule[], chain: string, map: ReadonlyMap<string, readonly Rule[]>) => void): void {
    for (const [chain, rules] of this.entries()) each(rules, chain, this);
  }
}

/** All chains of a table, in order: for going through them. To ask for one by its name goes through them, too. */
export class ChainParts extends UnpackedChains {
  readonly base: ReadonlyMap<string, readonly Rule[]>;
  readonly parts: readonly ChainPart[];

  constructor(base: ReadonlyMap<string, readonly Rule[]>, parts: readonly ChainPart[]) {
    super();
    this.base = base;
    this.parts = parts.filter(({ chains }) => chains > 0);
  }

  override get size(): number {
    return this.parts.reduce((count, { chains }) => count + chains, this.base.size);
  }

  override get(chain: string): readonly Rule[] | undefined {
    const known = this.base.get(chain);
    if (known !== undefined) return known;
    for (const [name, rules] of this.entries()) if (name === chain) return rules;
    return undefined;
  }

  override has(chain: string): boolean {
    return this.get(chain) !== undefined;
  }

  override *keys(): Generator<string, undefined> {
    yield* this.base.keys();
    for (const line of linesOf(this.parts)) yield nameOf(line);
  }

  override *entries(): Generator<[string, readonly Rule[]], undefined> {
    yield* this.base;
    for (const line of linesOf(this.parts)) {
      const [name = '', ...rules] = line.split('\t');
      yield [name, rules];
    }
  }
}

/** The chains, and others beside them. */
export function withOthers(chains: TableState['chains'], others: TableState['chains']): TableState['chains'] {
  if (others.size === 0) return chains;
  return chains instanceof ChainParts
    ? new ChainParts(new Map([...chains.base, ...others]), chains.parts)
    : new Map([...chains, ...others]);
}

/** Both without the parts that they share: what is left may differ. */
export function withoutSharedParts(
  one: TableState['chains'],
  other: TableState['chains'],
): readonly [one: TableState['chains'], other: TableState['chains']] {
  if (!(one instanceof ChainParts && other instanceof ChainParts)) return [one, other];
  const [ofOne, ofOther] = [new Set(one.parts), new Set(other.parts)];
  return [
    new Map(
      new ChainParts(
        one.base,
        one.parts.filter((part) => !ofOther.has(part)),
      ),
    ),
    new Map(
      new ChainParts(
        other.base,
        other.parts.filter((part) => !ofOne.has(part)),
      ),
    ),
  ];
}

/** How many rules the chains hold. */
export function countRules(chains: TableState['chains']): number {
  if (chains instanceof ChainParts) return chains.parts.reduce((count, { rules }) => count + rules, countRules(chains.base));
  let count = 0;
  for (const rules of chains.values()) count += rules.length;
  return count;
}

function* linesOf(parts: readonly ChainPart[]): Generator<string, undefined> {
  for (const { text } of parts) yield* text.split('\n');
}

function nameOf(line: string): string {
  const end = line.indexOf('\t');
  return end === -1 ? line : line.slice(0, end);
}
