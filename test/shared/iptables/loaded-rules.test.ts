// What iptables-save prints after a full load, normalised, is what was composed, normalised: otherwise every comparison
// would report drift. Loading twice changes nothing but the jumps.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { composeProxy } from '../../../shared/iptables/compose.ts';
import { isOwnChain } from '../../../shared/iptables/chain-names.ts';
import { normaliseRule } from '../../../shared/iptables/normalise.ts';
import { fullRestoreText } from '../../../shared/iptables/restore-text.ts';
import { type Ruleset, TABLES, type Table } from '../../../shared/iptables/ruleset.ts';
import { Namespace, namespacesMissing } from '../../end-to-end/namespace.ts';
import { largeCluster } from '../../functions/iptables/large-cluster.ts';
import { proxyFiles } from '../../functions/iptables/cluster.ts';

const skip = await namespacesMissing();
const WAIT = { nft: [], legacy: ['-w', '10'] } as const;

/** `table chain` -> normalised rules, of our chains and of the built-in ones. */
type Rules = Map<string, string[]>;

function composed(ruleset: Ruleset): Rules {
  const rules: Rules = new Map();
  for (const table of TABLES) {
    for (const [chain, own] of ruleset.tables[table].chains) rules.set(`${table} ${chain}`, own.map(normaliseRule));
    for (const { chain, rule } of ruleset.tables[table].jumps) {
      const key = `${table} ${chain}`;
      rules.set(key, [...(rules.get(key) ?? []), normaliseRule(rule)]);
    }
  }
  return rules;
}

function saved(text: string): Rules {
  const rules: Rules = new Map();
  let table: Table | null = null;
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) table = TABLES.find((name) => line === `*${name}`) ?? null;
    if (table === null) continue;
    const declared = /^:(\S+)/.exec(line)?.[1];
    if (declared !== undefined && isOwnChain(declared)) rules.set(`${table} ${declared}`, []);
    const [, chain, rule] = /^-A (\S+) (.*)$/.exec(line) ?? [];
    if (chain === undefined || rule === undefined) continue;
    const key = `${table} ${chain}`;
    rules.set(key, [...(rules.get(key) ?? []), normaliseRule(rule)]);
  }
  return rules;
}

const sorted = (rules: Rules): [string, string[]][] => [...rules].sort(([a], [b]) => (a < b ? -1 : 1));

describe('loaded rules', { skip }, () => {
  const { files } = proxyFiles(largeCluster(60));
  const { rulesets } = composeProxy(files, 'n1');
  const programs = { IPv4: 'iptables', IPv6: 'ip6tables' } as const;

  for (const backEnd of ['nft', 'legacy'] as const) {
    for (const family of ['IPv4', 'IPv6'] as const) {
      test(`${family}, iptables-${backEnd}: saved is what was composed, also after a second load`, async (t) => {
        const namespace = await Namespace.create('rules');
        t.after(() => namespace.close());
        const program = `${programs[family]}-${backEnd}`;
        const restore = [...WAIT[backEnd], '--noflush'];
        assert.ok([...rulesets[family].tables.nat.chains.keys()].length > 300, 'large enough to hold every kind of rule');

        await namespace.must(`${program}-restore`, restore, fullRestoreText(rulesets[family], { listFirst: true }));
        assert.deepEqual(sorted(saved(await namespace.must(`${program}-save`, []))), sorted(composed(rulesets[family])));

        await namespace.must(`${program}-restore`, restore, fullRestoreText(rulesets[family], { jumps: false }));
        assert.deepEqual(sorted(saved(await namespace.must(`${program}-save`, []))), sorted(composed(rulesets[family])));
      });
    }
  }
});
