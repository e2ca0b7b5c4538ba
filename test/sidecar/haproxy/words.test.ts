import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alertWords } from '../../../sidecar/haproxy/words.ts';

const FILES = new Map([['router/config/00-base.cfg', 'userlist u\n  user x insecure-password "deep secret"\n  bogus\n']]);

test('the alerts alone, without their marks and without what only repeats them', () => {
  const output = `[NOTICE]   (1) : haproxy version is 2.6.12
[ALERT]    (1) : config : parsing [config/00-base.cfg:3] : unknown keyword 'bogus'
[ALERT]    (1) : config : Error(s) found in configuration file : config/00-base.cfg
[ALERT]    (1) : config : Fatal errors found in configuration.
`;
  assert.equal(alertWords(output, FILES), "config : parsing [config/00-base.cfg:3] : unknown keyword 'bogus'");
});

test('an alert about a line with a secret keeps its place only', () => {
  const words = alertWords(`[ALERT] (1) : config : parsing [config/00-base.cfg:2] : cannot take "deep secret"\n`, FILES);
  assert.match(words, /\[config\/00-base\.cfg:2\]/);
  assert.doesNotMatch(words, /deep/);
});

test('many alerts are counted, none leaves the last words', () => {
  const many = Array.from({ length: 12 }, (_, i) => `[ALERT] (1) : a${i}`).join('\n');
  assert.match(alertWords(many, FILES), /^a0; .*a9; and 2 more$/);
  assert.equal(alertWords('one\ntwo\n', FILES), 'two');
  assert.equal(alertWords('', FILES), 'HAProxy said nothing');
});
