import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { firstOffence } from '../../functions/json-offence.ts';

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe('where a text stops being JSON', () => {
  // `|` stands before the offence.
  const table = [
    '|',
    '{|',
    '[|',
    '[1,2|',
    '{"a":1,|}',
    '{"a" |1}',
    '{"a":|}',
    '{|a:1}',
    "{|'a':1}",
    '[1,|]',
    '[|,1]',
    '[1 |2]',
    '{"a":1|]',
    '[1|}',
    '{"a":1}|}',
    '1 |2',
    '|tru',
    '[|nul]',
    '[0|1]',
    '[|-]',
    '[1|.]',
    '[|.5]',
    '[|+1]',
    '[|NaN]',
    '|"a',
    '[|"a\nb"]',
    '[|"\\x"]',
    '[|"\\u12g4"]',
    '{"a":1|\u00a0}',
    '|// comment\n{}',
    '\n\n{"a":\n|x}',
    '|\ufeff{}',
    '{"a":[{"b":[true,false,null,|]}]}',
  ];
  for (const marked of table) {
    test(JSON.stringify(marked), () => {
      const at = marked.indexOf('|');
      const text = marked.slice(0, at) + marked.slice(at + 1);
      assert.ok(!parses(text));
      assert.equal(firstOffence(text), at);
    });
  }

  test('JSON has none', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 2, '\t'), (json, indent) => {
        const text = JSON.stringify(JSON.parse(json), null, indent);
        assert.equal(firstOffence(text), text.length);
      }),
    );
  });

  test('it agrees with JSON.parse on what is JSON, and what stands before can still become JSON', () => {
    const unit = fc.constantFrom('{', '}', '[', ']', ',', ':', '"a"', '"', '1', '-', '.5', 'true', 'nul', ' ', '\n', '\\', 'x');
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 12 }), (text) => {
        const at = firstOffence(text);
        if (parses(text)) assert.equal(at, text.length);
        if (at < text.length) assert.ok(!parses(text), text);
        // Cut before the offence, nothing is wrong but that it ends.
        assert.equal(firstOffence(text.slice(0, at)), text.slice(0, at).length);
      }),
      { numRuns: 20_000 },
    );
  });

  test('deep nesting is no problem', () => assert.equal(firstOffence('['.repeat(200_000)), 200_000));
});
