import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Chain, ChainParts, countRules, packChains, withOthers, withoutSharedParts } from '../../../shared/iptables/chain-parts.ts';

const base: readonly Chain[] = [['KUBE-SERVICES', ['-j KUBE-SVC-A', '-j KUBE-SVC-B']]];
const ofA: readonly Chain[] = [
  ['KUBE-SVC-A', ['-j KUBE-SEP-A']],
  ['KUBE-SEP-A', ['-m comment --comment "a b" -j DNAT', '-j RETURN']],
];
const ofB: readonly Chain[] = [['KUBE-SVC-B', []]];

const all = new Map([...base, ...ofA, ...ofB]);
const [a, b] = [packChains(ofA), packChains(ofB)];
const parted = new ChainParts(new Map(base), [a, packChains([]), b]);

test('reads as the map of all its chains', () => {
  assert.deepEqual([...parted], [...all]);
  assert.deepEqual([...parted.keys()], [...all.keys()]);
  assert.deepEqual([...parted.values()], [...all.values()]);
  assert.deepEqual([parted.size, countRules(parted)], [all.size, countRules(all)]);
  for (const [chain, rules] of all) assert.deepEqual(parted.get(chain), rules);
  assert.equal(parted.get('KUBE-SEP-B'), undefined);
  assert.deepEqual([parted.has('KUBE-SVC-B'), parted.has('KUBE-SEP-B')], [true, false]);
});

test('others stand beside its chains', () => {
  const others = new Map([['KUBE-SEP-OLD', []]]);
  assert.deepEqual(new Map(withOthers(parted, others)), new Map([...all, ...others]));
  assert.equal(withOthers(parted, new Map()), parted);
});

test('two tables differ at most in the parts that they do not share', () => {
  const next = new ChainParts(new Map(base), [a, packChains([['KUBE-SVC-B', ['-j KUBE-SEP-B']]])]);
  const [before, after] = withoutSharedParts(parted, next);
  assert.deepEqual([...before.keys()], ['KUBE-SERVICES', 'KUBE-SVC-B']);
  assert.deepEqual(after.get('KUBE-SVC-B'), ['-j KUBE-SEP-B']);
  assert.equal(after.has('KUBE-SVC-A'), false);
  assert.deepEqual(withoutSharedParts(all, next), [all, next]);
});
