import assert from 'node:assert/strict';
import { test } from 'node:test';
import { normaliseRule, splitArguments } from '../../../shared/iptables/normalise.ts';

/** Written, and saved by iptables 1.8.9 (nft or legacy). */
const PAIRS: readonly (readonly [string, string])[] = [
  ['-d 10.0.0.1 -j RETURN', '-d 10.0.0.1/32 -j RETURN'],
  ['--destination fd00::1 --jump RETURN', '-d fd00::1/128 -j RETURN'],
  ['-s 0.0.0.0/0 -j RETURN', '-j RETURN'],
  ['-m statistic --mode random --probability 0.3333333333 -j A', '-m statistic --mode random --probability 0.33333333349 -j A'],
  ['-m statistic --mode random --probability 0.5000000000 -j A', '-m statistic --mode random --probability 0.50000000000 -j A'],
  ['-j MARK --or-mark 0x4000', '-j MARK --set-xmark 0x4000/0x4000'],
  ['-j MARK --xor-mark 0x4000', '-j MARK --set-xmark 0x4000/0x0'],
  ['-j MARK --and-mark 0xffffbfff', '-j MARK --set-xmark 0x0/0x4000'],
  ['-j MARK --set-mark 7', '-j MARK --set-xmark 0x7/0xffffffff'],
  ['-m mark --mark 0x00004000/0x4000 -j A', '-m mark --mark 0x4000/0x4000 -j A'],
  [
    '-m comment --comment "a b" -m tcp -p tcp -d 10.0.0.1/32 --dport 80 -j A',
    '-d 10.0.0.1/32 -p tcp -m comment --comment "a b" -m tcp --dport 80 -j A',
  ],
  ['-m comment --comment ns/a -j A', '-m comment --comment "ns/a" -j A'],
  ['-m comment --comment "-j DROP" -j A', '-m comment --comment "-j DROP" -j A'],
  [
    '-m recent --name X --rsource --mask 255.255.255.255 --reap --seconds 5 --rcheck -j A',
    '-m recent --rcheck --seconds 5 --reap --name X --mask 255.255.255.255 --rsource -j A',
  ],
  ['-m conntrack --ctstate ESTABLISHED,RELATED -j A', '-m conntrack --ctstate RELATED,ESTABLISHED -j A'],
  ['-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8 -j A', '! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j A'],
];

test('written and saved rules become the same text', () => {
  for (const [written, saved] of PAIRS) assert.equal(normaliseRule(written), normaliseRule(saved));
});

test('a normal form is its own normal form', () => {
  for (const rule of PAIRS.flat()) assert.equal(normaliseRule(normaliseRule(rule)), normaliseRule(rule));
});

test('rules that differ stay different', () => {
  const rules = [
    '-d 10.0.0.1/32 -j A',
    '! -d 10.0.0.1/32 -j A',
    '-s 10.0.0.1/32 -j A',
    '-d 10.0.0.1/24 -j A',
    '-d 10.0.0.1/32 -j B',
    '-d 10.0.0.1/32 -g A',
    '-d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j A',
    '-d 10.0.0.1/32 -p tcp -m tcp --sport 80 -j A',
    '-d 10.0.0.1/32 -p udp -m udp --dport 80 -j A',
    '-m statistic --mode random --probability 0.3333333333 -j A',
    '-m statistic --mode random --probability 0.3333333300 -j A',
    '-m comment --comment "-d 10.0.0.1/32 -j A" -j A',
    '-m mark --mark 0x4000/0x4000 -j A',
    '-m mark ! --mark 0x4000/0x4000 -j A',
    '-j MARK --set-xmark 0x4000/0x4000',
    '-j MARK --set-xmark 0x4000/0x0',
  ];
  assert.equal(new Set(rules.map(normaliseRule)).size, rules.length);
});

test('arguments are split as iptables-restore does', () => {
  assert.deepEqual(splitArguments(String.raw`-m comment  --comment "a \"b\" \\" -j A`), [
    '-m',
    'comment',
    '--comment',
    'a "b" \\',
    '-j',
    'A',
  ]);
});
