import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ChainParts, packChains } from '../../../shared/iptables/chain-parts.ts';
import type { BuiltInJump, Rule, Ruleset, TableState } from '../../../shared/iptables/ruleset.ts';
import { planFull, planPartial, planRemoval, planRepair } from '../../../sidecar/iptables/plan.ts';
import { restoreText } from '../../../sidecar/iptables/restore.ts';
import { parseSave } from '../../../sidecar/iptables/save.ts';

type Chains = Readonly<Record<string, readonly Rule[]>>;

const jump: BuiltInJump = { chain: 'PREROUTING', rule: '-j KUBE-SERVICES' };

function ruleset({ filter = {}, nat = {}, jumps = [] }: { filter?: Chains; nat?: Chains; jumps?: readonly BuiltInJump[] }): Ruleset {
  const table = (chains: Chains, its: readonly BuiltInJump[]): TableState => ({ chains: new Map(Object.entries(chains)), jumps: its });
  return { family: 'IPv4', tables: { filter: table(filter, []), nat: table(nat, jumps) } };
}

const texts = (plan: ReturnType<typeof planPartial>): string[] => plan.map((change) => restoreText(change));

test('equal rulesets need nothing', () => {
  const same = { filter: { 'KUBE-SERVICES': ['-j A'] }, nat: { 'KUBE-SERVICES': ['-j B'] }, jumps: [jump] };
  assert.deepEqual(planPartial(ruleset(same), ruleset(same)), []);
});

test('changed and new chains are written, stale ones emptied and then deleted', () => {
  const before = ruleset({ nat: { 'KUBE-SVC-A': ['-j KUBE-SEP-1'], 'KUBE-SEP-1': ['-j DNAT'], 'KUBE-SVC-B': ['-j X'] } });
  const after = ruleset({ nat: { 'KUBE-SVC-A': ['-j KUBE-SEP-2'], 'KUBE-SEP-2': ['-j DNAT'], 'KUBE-SVC-B': ['-j X'] } });
  assert.deepEqual(texts(planPartial(before, after)), [
    [
      '*nat',
      ':KUBE-SVC-A - [0:0]',
      ':KUBE-SEP-2 - [0:0]',
      ':KUBE-SEP-1 - [0:0]',
      '-A KUBE-SVC-A -j KUBE-SEP-2',
      '-A KUBE-SEP-2 -j DNAT',
      '-X KUBE-SEP-1',
      'COMMIT',
      '',
    ].join('\n'),
  ]);
});

test('filter has the rules of both until nat is written', () => {
  const before = ruleset({ filter: { 'KUBE-SERVICES': ['-d 1 -j REJECT', '-d 2 -j REJECT'] }, nat: { 'KUBE-SERVICES': ['-d 3'] } });
  const after = ruleset({ filter: { 'KUBE-SERVICES': ['-d 2 -j REJECT', '-d 3 -j REJECT'] }, nat: { 'KUBE-SERVICES': ['-d 1'] } });
  const steps = planPartial(before, after).map(({ table, chains }) => [table, chains.get('KUBE-SERVICES')]);
  assert.deepEqual(steps, [
    ['filter', ['-d 2 -j REJECT', '-d 3 -j REJECT', '-d 1 -j REJECT']],
    ['nat', ['-d 1']],
    ['filter', ['-d 2 -j REJECT', '-d 3 -j REJECT']],
  ]);
});

test('only additions to filter are one commit before nat, only removals one after', () => {
  const less = ruleset({ filter: { 'KUBE-SERVICES': ['-d 2'] }, nat: { 'KUBE-SERVICES': ['-d 1'] } });
  const more = ruleset({ filter: { 'KUBE-SERVICES': ['-d 1', '-d 2'] }, nat: { 'KUBE-SERVICES': [] } });
  assert.deepEqual(
    planPartial(less, more).map(({ table }) => table),
    ['filter', 'nat'],
  );
  assert.deepEqual(
    planPartial(more, less).map(({ table }) => table),
    ['nat', 'filter'],
  );
});

test('a full load writes every chain, and each jump is there once', () => {
  const saved = parseSave(
    'IPv4',
    ['*nat', ':PREROUTING ACCEPT [0:0]', ':KUBE-SERVICES - [0:0]', '-A PREROUTING -j KUBE-SERVICES', '-A PREROUTING -j KUBE-SERVICES'].join(
      '\n',
    ),
  );
  const [change, ...others] = planFull(saved, ruleset({ nat: { 'KUBE-SERVICES': [] }, jumps: [jump, { ...jump, chain: 'OUTPUT' }] }));
  assert.deepEqual(others, []);
  assert.deepEqual([...(change?.chains.keys() ?? [])], ['KUBE-SERVICES']);
  assert.deepEqual(change?.deleteJumps, [jump]);
  assert.deepEqual(change?.insertJumps, [{ ...jump, chain: 'OUTPUT' }]);
});

test('the order of jumps in a chain is kept by inserting the last one first', () => {
  const jumps = [jump, { ...jump, rule: '-j KUBE-NODEPORTS' }];
  const [text = ''] = texts(planPartial(ruleset({}), ruleset({ jumps })));
  assert.match(text, /-I PREROUTING -j KUBE-NODEPORTS\n-I PREROUTING -j KUBE-SERVICES\n/);
});

test('rules that are only written in another way are no drift', () => {
  const saved = parseSave('IPv4', '*nat\n:KUBE-MARK-MASQ - [0:0]\n-A KUBE-MARK-MASQ -d 10.0.0.1/32 -j MARK --set-xmark 0x4000/0x4000\n');
  assert.deepEqual(planRepair(saved, ruleset({ nat: { 'KUBE-MARK-MASQ': ['-d 10.0.0.1 -j MARK --or-mark 0x4000'] } })), []);
  assert.equal(planRepair(saved, ruleset({ nat: { 'KUBE-MARK-MASQ': ['-d 10.0.0.2 -j MARK --or-mark 0x4000'] } })).length, 1);
});

test('a chain that others hold is emptied, once, and not deleted', () => {
  const held = ['*nat', ':OTHER - [0:0]', ':KUBE-SERVICES - [0:0]', '-A OTHER -j KUBE-SERVICES'];
  const [change] = planRemoval(parseSave('IPv4', [...held, '-A KUBE-SERVICES -j RETURN'].join('\n')));
  assert.deepEqual([[...(change?.chains ?? [])], change?.removeChains], [[['KUBE-SERVICES', []]], []]);
  assert.deepEqual(planRemoval(parseSave('IPv4', held.join('\n'))), []);
});

test('a load that lists the table first declares the built-in chains as they are', () => {
  const saved = parseSave('IPv4', '*nat\n:PREROUTING DROP [0:0]\nCOMMIT\n');
  const [change] = planFull(saved, ruleset({ nat: { 'KUBE-SERVICES': [] }, jumps: [jump] }));
  assert.ok(change !== undefined);
  assert.match(restoreText(change, true), /^\*nat\n-S\n:PREROUTING DROP \[0:0\]\n:KUBE-SERVICES - /);
  assert.doesNotMatch(restoreText(change), /PREROUTING DROP|^-S$/m);
});

test('of chains in parts, those that changed are written', () => {
  const parted = (...services: readonly (readonly [string, Rule])[]): Ruleset => {
    const parts = services.map(([name, rule]) => packChains([[name, [rule]]]));
    const { tables, ...rest } = ruleset({ jumps: [jump] });
    return { ...rest, tables: { ...tables, nat: { ...tables.nat, chains: new ChainParts(new Map([['KUBE-SERVICES', []]]), parts) } } };
  };
  const before = parted(['KUBE-SVC-A', '-j A'], ['KUBE-SVC-B', '-j B']);
  const after = parted(['KUBE-SVC-A', '-j A'], ['KUBE-SVC-C', '-j C']);
  assert.deepEqual(texts(planPartial(before, after)), [
    '*nat\n:KUBE-SVC-C - [0:0]\n:KUBE-SVC-B - [0:0]\n-A KUBE-SVC-C -j C\n-X KUBE-SVC-B\nCOMMIT\n',
  ]);
  const saved = parseSave('IPv4', ['*nat', ':KUBE-SVC-B - [0:0]', '-A KUBE-SVC-B -j B', 'COMMIT'].join('\n'), () => true);
  const declared = planFull(saved, after).map(({ chains, removeChains }) => [[...chains.keys()], removeChains]);
  assert.deepEqual(declared, [[['KUBE-SERVICES', 'KUBE-SVC-B', 'KUBE-SVC-A', 'KUBE-SVC-C'], ['KUBE-SVC-B']]]);
});
