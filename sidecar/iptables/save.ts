// Reads what iptables-save prints: of the tables that we write, our chains with their rules, the jumps into them, and
// which of our chains somebody else's rules refer to. Rules stay exactly as saved, so they can be loaded or deleted.

import type { Family } from '../../shared/endpoint.ts';
import { isOwnChain } from '../../shared/iptables/chain-names.ts';
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
  const tables = { filter: new TableReader(ours), nat: new TableReader(ours) };
  let reader: TableReader | null = null;
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) reader = line === '*filter' ? tables.filter : line === '*nat' ? tables.nat : null;
    else if (line.startsWith(':')) reader?.declaration(line.slice(1).split(' '));
    else if (line.startsWith('-A ')) reader?.rule(line.slice(3));
  }
  return { family, tables: { filter: tables.filter.table(), nat: tables.nat.table() } };
}

/** The chain that a rule jumps or goes to; null when its target is none (or there is no target). */
export function jumpTarget(rule: Rule): string | null {
  const unquoted = rule.includes('"') ? rule.replace(/"(?:[^"\\]|\\.)*"/g, '""') : rule;
  return /(?:^| )(?:-j|-g|--jump|--goto) (\S+)/.exec(unquoted)?.[1] ?? null;
}

class TableReader {
  readonly #ours: (chain: string) => boolean;
  readonly #chains = new Map<string, Rule[]>();
  readonly #jumps: BuiltInJump[] = [];
  readonly #policies = new Map<string, string>();
  readonly #held = new Set<string>();

  constructor(ours: (chain: string) => boolean) {
    this.#ours = ours;
  }

  declaration([chain = '', policy = '-']: readonly string[]): void {
    if (isBuiltIn(chain)) this.#policies.set(chain, policy);
    else if (this.#ours(chain)) this.#chains.set(chain, []);
  }

  /** A line without `-A `: the chain's name and the rule. */
  rule(line: string): void {
    const space = line.indexOf(' ');
    const chain = space === -1 ? line : line.slice(0, space);
    const rule = space === -1 ? '' : line.slice(space + 1);
    const rules = this.#chains.get(chain);
    if (rules !== undefined) {
      rules.push(rule);
      return;
    }
    const target = jumpTarget(rule);
    if (target === null || !this.#ours(target)) return;
    if (isBuiltIn(chain)) this.#jumps.push({ chain, rule });
    else this.#held.add(target);
  }

  table(): SavedTable {
    return { chains: this.#chains, jumps: this.#jumps, policies: this.#policies, held: this.#held };
  }
}

function isBuiltIn(chain: string): chain is BuiltInJump['chain'] {
  return BUILT_IN.includes(chain);
}
