// Reads what iptables-save prints: of the tables that we write, our chains with their rules, the jumps into them, and
// which of our chains somebody else's rules refer to. Rules stay exactly as saved, so they can be loaded or deleted.

import type { Family } from '../../shared/endpoint.ts';
import { isOwnChain } from '../../shared/iptables/chain-names.ts';
import { UnpackedChains } from '../../shared/iptables/chain-parts.ts';
import type { BuiltInJump, Rule, Ruleset, Table, TableState } from '../../shared/iptables/ruleset.ts';

export interface SavedTable extends TableState {
  /** Policies of the built-in chains. iptables-nft names chains here that the kernel does not have yet. */
  readonly policies: ReadonlyMap<string, string>;
  /** Our chains that rules in somebody else's chains jump to: they cannot be deleted. */
  readonly held: ReadonlySet<string>;
}

export interface SavedRules extends Ruleset {
  readonly tables: Readonly<Record<Table, SavedTable>>;
}

const BUILT_IN: readonly string[] = ['INPUT', 'OUTPUT', 'FORWARD', 'PREROUTING', 'POSTROUTING'] satisfies BuiltInJump['chain'][];

/** Reads a saved text. `ours` tells which chains are read as ours. */
export function parseSave(family: Family, text: string, ours: (chain: string) => boolean = isOwnChain): SavedRules {
  const reader = new SaveReader(family, ours);
  for (const line of text.split('\n')) reader.line(line);
  return reader.rules();
}

/** Reads it line by line. */
export class SaveReader {
  readonly #family: Family;
  readonly #tables: Readonly<Record<Table, TableReader>>;
  #current: TableReader | null = null;

  constructor(family: Family, ours: (chain: string) => boolean = isOwnChain) {
    this.#family = family;
    this.#tables = { filter: new TableReader(ours), nat: new TableReader(ours) };
  }

  line(line: string): void {
    const { filter, nat } = this.#tables;
    if (line.startsWith('*')) this.#current = line === '*filter' ? filter : line === '*nat' ? nat : null;
    else if (line.startsWith(':')) this.#current?.declaration(line.slice(1).split(' '));
    else if (line.startsWith('-A ')) this.#current?.rule(line.slice(3));
  }

  rules(): SavedRules {
    const { filter, nat } = this.#tables;
    return { family: this.#family, tables: { filter: filter.table(), nat: nat.table() } };
  }
}

/** The chain that a rule jumps or goes to; null when its target is none (or there is no target). */
export function jumpTarget(rule: Rule): string | null {
  const unquoted = rule.includes('"') ? rule.replace(/"(?:[^"\\]|\\.)*"/g, '""') : rule;
  return /(?:^| )(?:-j|-g|--jump|--goto) (\S+)/.exec(unquoted)?.[1] ?? null;
}

/** The rules of each chain as one text: a hundred thousand of them as values take several times the memory. */
class SavedChains extends UnpackedChains {
  /** Each rule and a line feed. */
  readonly #texts = new Map<string, string>();
  /** The chain whose rules come now: those of a chain stand together. */
  #open = '';
  #rules: Rule[] = [];

  declare(chain: string): void {
    this.#texts.set(chain, '');
  }

  /** False when the chain is not declared. */
  add(chain: string, rule: Rule): boolean {
    if (chain !== this.#open) {
      if (!this.#texts.has(chain)) return false;
      this.close();
      this.#open = chain;
    }
    this.#rules.push(rule);
    return true;
  }

  /** Must follow the last `add`. */
  close(): void {
    if (this.#rules.length > 0) this.#texts.set(this.#open, `${this.#texts.get(this.#open) ?? ''}${[...this.#rules, ''].join('\n')}`);
    this.#open = '';
    this.#rules = [];
  }

  override get size(): number {
    return this.#texts.size;
  }

  override get(chain: string): readonly Rule[] | undefined {
    return this.#texts.get(chain)?.split('\n').slice(0, -1);
  }

  override has(chain: string): boolean {
    return this.#texts.has(chain);
  }

  override *keys(): Generator<string, undefined> {
    yield* this.#texts.keys();
  }

  override *entries(): Generator<[string, readonly Rule[]], undefined> {
    for (const [chain, text] of this.#texts) yield [chain, text.split('\n').slice(0, -1)];
  }
}

class TableReader {
  readonly #ours: (chain: string) => boolean;
  readonly #chains = new SavedChains();
  readonly #jumps: BuiltInJump[] = [];
  readonly #policies = new Map<string, string>();
  readonly #held = new Set<string>();

  constructor(ours: (chain: string) => boolean) {
    this.#ours = ours;
  }

  declaration([chain = '', policy = '-']: readonly string[]): void {
    if (isBuiltIn(chain)) this.#policies.set(chain, policy);
    // V8 keeps a line as long as a part of it: a copy lets it go.
    else if (this.#ours(chain)) this.#chains.declare(Buffer.from(chain).toString());
  }

  /** A line without `-A `: the chain's name and the rule. */
  rule(line: string): void {
    const space = line.indexOf(' ');
    const chain = space === -1 ? line : line.slice(0, space);
    const rule = space === -1 ? '' : line.slice(space + 1);
    if (this.#chains.add(chain, rule)) return;
    const target = jumpTarget(rule);
    if (target === null || !this.#ours(target)) return;
    if (isBuiltIn(chain)) this.#jumps.push({ chain, rule });
    else this.#held.add(target);
  }

  table(): SavedTable {
    this.#chains.close();
    return { chains: this.#chains, jumps: this.#jumps, policies: this.#policies, held: this.#held };
  }
}

function isBuiltIn(chain: string): chain is BuiltInJump['chain'] {
  return BUILT_IN.includes(chain);
}
