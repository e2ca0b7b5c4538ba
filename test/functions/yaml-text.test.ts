import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { UnparsableText, parseJson, parseYaml } from '../../functions/yaml-text.ts';

function failure(work: () => unknown): UnparsableText {
  let thrown: unknown;
  try {
    work();
  } catch (error) {
    thrown = error;
  }
  assert.ok(thrown instanceof UnparsableText, `expected it not to parse, got ${String(thrown)}`);
  assert.doesNotMatch(thrown.message, /\n/);
  return thrown;
}

describe('YAML', () => {
  test('documents and their lines', () => {
    assert.deepEqual(parseYaml('a: 1\n---\n# comment\nb: [x, y]\n---\n- c\n'), [
      { value: { a: 1 }, line: 1 },
      { value: { b: ['x', 'y'] }, line: 4 },
      { value: ['c'], line: 6 },
    ]);
  });

  test('nothing, and empty documents', () => {
    assert.deepEqual(parseYaml(''), []);
    assert.deepEqual(parseYaml('# only a comment\n'), []);
    assert.deepEqual(
      parseYaml('---\n---\na: 1\n---\n').map(({ value }) => value),
      [null, { a: 1 }, null],
    );
  });

  test('plain words are text, numbers are numbers, times stay text', () => {
    assert.deepEqual(parseYaml('{a: yes, b: off, c: 0x10, d: "80", e: 80, f: 2024-01-31T12:00:00Z, g: ~, h: true}')[0]?.value, {
      a: 'yes',
      b: 'off',
      c: 16,
      d: '80',
      e: 80,
      f: '2024-01-31T12:00:00Z',
      g: null,
      h: true,
    });
  });

  test('anchors and merged keys', () => {
    assert.deepEqual(parseYaml('x: &a {q: 1, r: 2}\ny:\n  <<: *a\n  r: 3\n')[0]?.value, { x: { q: 1, r: 2 }, y: { q: 1, r: 3 } });
  });

  test('a key named like a member of Object is a plain key', () => {
    const [document] = parseYaml('__proto__: {x: 1}\n');
    assert.deepEqual(Object.keys(document?.value ?? {}), ['__proto__']);
    assert.equal(Reflect.get({}, 'x'), undefined);
  });

  const bad: readonly (readonly [string, number, RegExp])[] = [
    ['a: 1\nb: 2\na: 3\n', 3, /unique/],
    ['a: [1\nb: 2\n', 2, /./],
    ['a: 1\n---\nb: {x: 1\n', 4, /./],
    ['a: "x\n', 2, /./],
    ['\ta: 1\n', 1, /[Tt]ab/],
    ['a: b: c\n', 1, /./],
    ['x: 0\na: 1\n b: 2\n', 2, /./],
    ['a: 1\n---\nb: 1\nc: &x 1\nd: [*x, *nowhere]\n', 5, /^Unresolved alias \(the anchor must be set before the alias\)$/],
    ['- a\nb: 1\n', 2, /./],
  ];
  for (const [text, line, words] of bad) {
    test(`${JSON.stringify(text)} is wrong on line ${line}`, () => {
      const error = failure(() => parseYaml(text));
      assert.equal(error.line, line, error.message);
      assert.match(error.message, words);
    });
  }

  test('what a text holds is not repeated: it may be a secret', () => {
    const texts = [
      'a: "hunter2\n',
      'a: *hunter2\n',
      'a: |hunter2\n',
      'a: b\n"hunter2" x\n',
      '@hunter2\n',
      'a: {b: hunter2\n',
      '%hunter2\n---\na: [\n',
      'a: 1\na: hunter2\n',
    ];
    for (const text of texts) assert.doesNotMatch(failure(() => parseYaml(text)).message, /hunter2/, text);
  });

  test('a bomb of aliases is refused; hundreds of uses of an anchor are not', () => {
    const level = (name: string, of: string): string => `${name}: &${name} [${Array.from({ length: 10 }, () => of).join(', ')}]\n`;
    const names = ['b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'];
    const bomb = level('a', 'x') + names.map((name, index) => level(name, `*${names[index - 1] ?? 'a'}`)).join('');
    assert.match(failure(() => parseYaml(bomb)).message, /alias/);
    const many = `base: &base {x: 1}\nall:\n${'- *base\n'.repeat(900)}`;
    assert.equal(parseYaml(many).length, 1);
  });

  test('nesting without end is refused', () => {
    failure(() => parseYaml('['.repeat(20_000)));
  });
});

describe('JSON', () => {
  test('one document', () => assert.deepEqual(parseJson('\n{"a": [1]}\n'), { value: { a: [1] }, line: 1 }));

  const bad: readonly (readonly [string, number, string])[] = [
    ['{\n"a": 1,\n}', 3, 'not JSON: unexpected "}"'],
    ['{\n"a": x\n}', 2, 'not JSON: unexpected "x"'],
    ['{"a": 1}\n{"b": 2}', 2, 'not JSON: unexpected "{"'],
    ['[1,\n2\n', 3, 'not JSON: the text ends too early'],
    ['', 1, 'not JSON: the text ends too early'],
  ];
  for (const [text, line, message] of bad) {
    test(`${JSON.stringify(text)} is wrong on line ${line}`, () => {
      const error = failure(() => parseJson(text));
      assert.deepEqual([error.line, error.message], [line, message]);
    });
  }
});
