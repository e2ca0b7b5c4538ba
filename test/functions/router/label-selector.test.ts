import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { matchesLabels, parseLabelSelector } from '../../../functions/router/label-selector.ts';

function selects(selector: string, labels: Readonly<Record<string, string>>): boolean {
  const parsed = parseLabelSelector(selector);
  assert.notEqual(parsed, null, selector);
  return matchesLabels(parsed ?? [], labels);
}

describe('what a selector selects', () => {
  const table: readonly (readonly [string, Readonly<Record<string, string>>, boolean])[] = [
    ['', {}, true],
    ['  ', { a: 'b' }, true],
    ['a=b', { a: 'b' }, true],
    ['a==b', { a: 'b' }, true],
    [' a = b ', { a: 'b' }, true],
    ['a=b', { a: 'c' }, false],
    ['a=b', {}, false],
    ['a=', { a: '' }, true],
    ['a=', {}, false],
    ['a!=b', { a: 'c' }, true],
    ['a!=b', {}, true],
    ['a!=b', { a: 'b' }, false],
    ['a', { a: '' }, true],
    ['a', {}, false],
    ['!a', {}, true],
    ['! a', {}, true],
    ['!a', { a: 'x' }, false],
    ['a in (x,y)', { a: 'y' }, true],
    ['a in (x, y )', { a: 'y' }, true],
    ['a in (x,y)', { a: 'z' }, false],
    ['a in (x,y)', {}, false],
    ['a in(x)', { a: 'x' }, true],
    ['a in ()', { a: '' }, true],
    ['a in (,x)', { a: '' }, true],
    ['a notin (x,y)', { a: 'z' }, true],
    ['a notin (x,y)', {}, true],
    ['a notin (x,y)', { a: 'x' }, false],
    ['a=b,c!=d,e in (x,y),!f,g', { a: 'b', e: 'x', g: '1' }, true],
    ['a=b,c!=d,e in (x,y),!f,g', { a: 'b', e: 'x', g: '1', f: '' }, false],
    ['a=b,c!=d,e in (x,y),!f,g', { a: 'b', e: 'x' }, false],
    ['a in (x,y),b notin (z),c', { a: 'x', c: '' }, true],
    ['in', { in: 'x' }, true],
    ['in in (in)', { in: 'in' }, true],
    ['router.example.com/shard=blue', { 'router.example.com/shard': 'blue' }, true],
    ['toString', {}, false],
    ['constructor!=x', {}, true],
  ];
  for (const [selector, labels, expected] of table) {
    test(`${JSON.stringify(selector)} on ${JSON.stringify(labels)}`, () => assert.equal(selects(selector, labels), expected));
  }
});

describe('what is no selector', () => {
  const bad = [
    'a=b,',
    ',a=b',
    ',',
    'a=b,,c=d',
    'a b',
    '=b',
    'a=b=c',
    '!a=b',
    '!!a',
    '__proto__',
    '!',
    'a in x',
    'a in (x',
    'a in x)',
    'a in (x))',
    'a in ((x))',
    'a notin',
    'a>1',
    'a=b c',
    'a=-b',
    'a=b-',
    'a/b/c=d',
    '/a=b',
    'a/=b',
    'Upper.Case/a=b',
    `a=${'x'.repeat(64)}`,
    `${'x'.repeat(64)}=a`,
    `${'x'.repeat(254)}/a`,
    'a in (x y)',
    'a="b"',
    'a=b\n,c"',
    'é=b',
  ];
  for (const selector of bad) test(JSON.stringify(selector), () => assert.equal(parseLabelSelector(selector), null));
});

const letter = fc.constantFrom('a', 'b', 'c');
const labels = fc.dictionary(letter, letter);

test('a requirement and its opposite never both hold', () => {
  fc.assert(
    fc.property(letter, fc.array(letter, { minLength: 1, maxLength: 3 }), labels, (key, values, of) => {
      const list = values.join(',');
      assert.notEqual(selects(`${key} in (${list})`, of), selects(`${key} notin (${list})`, of));
      assert.notEqual(selects(key, of), selects(`!${key}`, of));
      assert.notEqual(selects(`${key}=${list[0]}`, of), selects(`${key}!=${list[0]}`, of));
    }),
  );
});

test('requirements are joined by "and", in any order', () => {
  const requirement = fc.oneof(
    fc.tuple(letter, letter).map(([key, value]) => `${key}=${value}`),
    fc.tuple(letter, letter, letter).map(([key, x, y]) => `${key} notin (${x},${y})`),
    letter.map((key) => `!${key}`),
  );
  fc.assert(
    fc.property(fc.array(requirement, { minLength: 1, maxLength: 4 }), labels, (parts, of) => {
      const each = parts.every((part) => selects(part, of));
      assert.equal(selects(parts.join(','), of), each);
      assert.equal(selects(parts.toReversed().join(' , '), of), each);
    }),
  );
});

test('hostile text is answered, quickly and without an error', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', ',', '(', ')', '!', '=', ' ', 'in', '/', '\n'), maxLength: 60 }), (text) => {
      parseLabelSelector(text);
    }),
  );
  for (const text of ['(', '),', ',', 'a,', 'a in (']) assert.equal(parseLabelSelector(text.repeat(50_000)), null);
  assert.equal(parseLabelSelector(`a in (${','.repeat(50_000)}`), null);
  assert.equal(parseLabelSelector(`a${' '.repeat(50_000)}b`), null);
});
