import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fullRestoreText, restoreFileText } from '../../../shared/iptables/restore-text.ts';
import type { Ruleset } from '../../../shared/iptables/ruleset.ts';

const RULESET: Ruleset = {
  family: 'IPv4',
  tables: {
    filter: {
      chains: new Map([['KUBE-FORWARD', ['-j RETURN']]]),
      jumps: [
        { chain: 'FORWARD', rule: '-m comment --comment first -j KUBE-FORWARD' },
        { chain: 'FORWARD', rule: '-m comment --comment second -j KUBE-FORWARD' },
      ],
    },
    nat: { chains: new Map([['KUBE-SERVICES', []]]), jumps: [] },
  },
};

test('chains are declared, then filled; jumps end up in their order at the head of their chain', () => {
  assert.equal(
    fullRestoreText(RULESET),
    [
      '*filter',
      ':KUBE-FORWARD - [0:0]',
      '-A KUBE-FORWARD -j RETURN',
      '-I FORWARD -m comment --comment second -j KUBE-FORWARD',
      '-I FORWARD -m comment --comment first -j KUBE-FORWARD',
      'COMMIT',
      '*nat',
      ':KUBE-SERVICES - [0:0]',
      'COMMIT',
      '',
    ].join('\n'),
  );
});

test('the listing comes first, in nat only, with the built-in chains that an empty table lacks', () => {
  const text = fullRestoreText(RULESET, { listFirst: true, jumps: false });
  assert.match(text, /\*nat\n-S\n:PREROUTING ACCEPT \[0:0\]\n(:\S+ ACCEPT \[0:0\]\n){3}:KUBE-SERVICES/);
  assert.doesNotMatch(text, /\*filter\n(-S|:\S+ ACCEPT)/);
  assert.doesNotMatch(text, /-I /);
});

test('a ruleset may be as large as a large cluster’s', () => {
  const chains = new Map(Array.from({ length: 200_000 }, (_, index) => [`KUBE-SEP-${index}`, ['-j RETURN']]));
  const large = { ...RULESET, tables: { ...RULESET.tables, nat: { chains, jumps: [] } } };
  assert.equal(fullRestoreText(large).match(/^-A KUBE-SEP-/gm)?.length, 200_000);
});

test('a file begins with a listing only when it is large', () => {
  const ruleset = (rules: number): Ruleset => {
    const chains = new Map([['KUBE-SERVICES', Array.from({ length: rules }, () => '-j RETURN')]]);
    return { ...RULESET, tables: { ...RULESET.tables, nat: { chains, jumps: [] } } };
  };
  assert.doesNotMatch(restoreFileText(ruleset(10_000)), /^-S$/m);
  assert.match(restoreFileText(ruleset(10_001)), /\*nat\n-S\n/);
});
