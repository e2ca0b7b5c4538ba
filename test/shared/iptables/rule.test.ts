import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { splitArguments } from '../../../shared/iptables/normalise.ts';
import { argument, printRule } from '../../../shared/iptables/rule.ts';
import { Namespace, namespacesMissing } from '../../end-to-end/namespace.ts';

const hostile = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 400 }),
  fc
    .array(fc.constantFrom('"', '\\', '\n', ' ', "'", '-j ACCEPT', '\r', '\0', 'é', '$(x)', ';'), { minLength: 1 })
    .map((parts) => parts.join('')),
);

test('no text adds a line, ends its quote or becomes a second argument', () => {
  fc.assert(
    fc.property(hostile, (text) => {
      const rule = printRule({ comment: text, protocol: 'TCP', port: 80, jump: ['DROP'] });
      assert.match(rule, /^[ -~]+$/);
      const words = splitArguments(rule);
      assert.deepEqual(words.toSpliced(5, 1), ['-p', 'tcp', '-m', 'comment', '--comment', '-m', 'tcp', '--dport', '80', '-j', 'DROP']);
      assert.ok((words[5] ?? '').length <= 255);
    }),
  );
});

test('any value of a rule is one argument', () => {
  fc.assert(fc.property(hostile, (text) => assert.equal(splitArguments(argument(text)).length, 1)));
});

test('rules are printed as iptables-save prints them', () => {
  const rule = printRule({
    notSource: '127.0.0.0/8',
    destination: 'fd00::1',
    protocol: 'UDP',
    comment: 'ns/name:port cluster IP',
    port: { from: 64, to: 127 },
    matches: [['-m', 'addrtype', '--dst-type', 'LOCAL']],
    jump: ['DNAT', '--to-destination', '[fd00::1]:80'],
  });
  assert.equal(
    rule,
    '! -s 127.0.0.0/8 -d fd00::1/128 -p udp -m comment --comment "ns/name:port cluster IP" -m udp --dport 64:127 -m addrtype --dst-type LOCAL -j DNAT --to-destination [fd00::1]:80',
  );
});

test('a source that is everything, and a comment that is none, are not printed', () => {
  assert.equal(printRule({ source: '0.0.0.0/0', destination: '::/0', comment: null, jump: ['RETURN'] }), '-j RETURN');
});

test('iptables-restore reads hostile comments as comments, on both back ends', { skip: await namespacesMissing() }, async (t) => {
  const namespace = await Namespace.create('quotes');
  t.after(() => namespace.close());
  const comments = fc.sample(hostile, { numRuns: 300, seed: 7 });
  const rules = comments.map((comment) => `-A KUBE-FORWARD ${printRule({ comment, jump: ['RETURN'] })}\n`);
  for (const backEnd of ['nft', 'legacy'] as const) {
    const wait = backEnd === 'legacy' ? ['-w', '10'] : [];
    await namespace.must(
      `iptables-${backEnd}-restore`,
      ['--noflush', ...wait],
      `*filter\n:KUBE-FORWARD - [0:0]\n${rules.join('')}COMMIT\n`,
    );
    const saved = (await namespace.must(`iptables-${backEnd}-save`, ['-t', 'filter'])).split('\n').filter((line) => line.startsWith('-A'));
    assert.equal(saved.length, comments.length);
    for (const line of saved) assert.match(line, /^-A KUBE-FORWARD -m comment --comment .* -j RETURN$/);
  }
});
