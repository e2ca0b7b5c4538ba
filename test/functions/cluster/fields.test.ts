import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type Fields,
  WrongField,
  legible,
  objects,
  optionalBoolean,
  optionalInteger,
  optionalObject,
  optionalText,
  pathOf,
  requiredObject,
  requiredText,
  text,
  textMap,
  texts,
  wholeObject,
} from '../../../functions/cluster/fields.ts';

function whole(value: unknown): Fields {
  const fields = wholeObject(value);
  assert.ok(fields !== null);
  return fields;
}

function wrong(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof WrongField, String(error));
    return `${error.reason} ${error.field}: ${error.message}`;
  }
  return assert.fail('expected it not to be read');
}

test('only a mapping is an object', () => {
  for (const value of [null, undefined, [], 'a', 5, true]) assert.equal(wholeObject(value), null);
  assert.notEqual(wholeObject({}), null);
});

test('absent, null, and for text empty, are nothing', () => {
  for (const fields of [whole({}), whole({ x: null }), whole({ x: undefined })]) {
    assert.equal(optionalText(fields, 'x'), null);
    assert.equal(optionalBoolean(fields, 'x'), null);
    assert.equal(optionalInteger(fields, 'x', 0, 1), null);
    assert.equal(optionalObject(fields, 'x'), null);
    assert.deepEqual(objects(fields, 'x'), []);
    assert.deepEqual(texts(fields, 'x'), []);
    assert.deepEqual(textMap(fields, 'x'), {});
    assert.equal(text(fields, 'x', 'fallback'), 'fallback');
    assert.equal(
      wrong(() => requiredText(fields, 'x')),
      'WrongType x: expected text, found nothing',
    );
    assert.equal(
      wrong(() => requiredObject(fields, 'x')),
      'WrongType x: expected an object, found nothing',
    );
  }
  assert.equal(optionalText(whole({ x: '' }), 'x'), null);
  assert.equal(text(whole({ x: '' }), 'x', 'fallback'), 'fallback');
});

test('values of the expected type', () => {
  const fields = whole({ t: 'a', f: false, n: 0, o: {}, os: [{}], ts: ['', 'a'], m: { a: '', b: 'c' } });
  assert.equal(requiredText(fields, 't'), 'a');
  assert.equal(optionalBoolean(fields, 'f'), false);
  assert.equal(optionalInteger(fields, 'n', 0, 0), 0);
  assert.notEqual(optionalObject(fields, 'o'), null);
  assert.equal(objects(fields, 'os').length, 1);
  assert.deepEqual(texts(fields, 'ts'), ['', 'a']);
  assert.deepEqual(textMap(fields, 'm'), { a: '', b: 'c' });
});

describe('another type is named, and not repeated', () => {
  const fields = whole({ t: 'secret', n: 5, b: true, l: [1], o: { a: 1 } });
  const table: readonly (readonly [() => unknown, string])[] = [
    [() => optionalText(fields, 'n'), 'WrongType n: expected text, found a number'],
    [() => optionalText(fields, 'b'), 'WrongType b: expected text, found true or false'],
    [() => optionalText(fields, 'l'), 'WrongType l: expected text, found a list'],
    [() => optionalBoolean(fields, 't'), 'WrongType t: expected true or false, found text'],
    [() => optionalInteger(fields, 't', 0, 9), 'WrongType t: expected a whole number, found text'],
    [() => optionalInteger(fields, 'n', 6, 9), 'OutOfRange n: expected 6 to 9, found 5'],
    [() => optionalInteger(fields, 'n', 0, 4), 'OutOfRange n: expected 0 to 4, found 5'],
    [() => optionalObject(fields, 'l'), 'WrongType l: expected an object, found a list'],
    [() => objects(fields, 'o'), 'WrongType o: expected a list, found an object'],
    [() => objects(fields, 'l'), 'WrongType l[0]: expected an object, found a number'],
    [() => texts(fields, 'l'), 'WrongType l[0]: expected text, found a number'],
    [() => textMap(fields, 'o'), 'WrongType o.a: expected text, found a number'],
    [() => textMap(fields, 't'), 'WrongType t: expected an object, found text'],
  ];
  for (const [read, message] of table) test(message, () => assert.equal(wrong(read), message));
});

test('a path is written as a person writes it', () => {
  const fields = whole({ spec: { ports: [{}, { a: { b: 1 } }] } });
  assert.equal(pathOf(fields, 'spec'), 'spec');
  const [, port] = objects(requiredObject(fields, 'spec'), 'ports');
  assert.ok(port !== undefined);
  assert.equal(pathOf(port, 'port'), 'spec.ports[1].port');
  assert.equal(pathOf(requiredObject(port, 'a'), 'b'), 'spec.ports[1].a.b');
});

test('keys are names and nothing more', () => {
  assert.equal(
    wrong(() => textMap(whole({ m: { 'a\u0000\u2028é"': 1 } }), 'm')),
    'WrongType m.a???": expected text, found a number',
  );
  assert.deepEqual(Object.keys(textMap(whole(JSON.parse('{"m": {"__proto__": "x"}}')), 'm')), ['__proto__']);
});

test('hostile text is made legible', () => {
  assert.equal(legible('a b\n\u001b[31mé'), 'a?b??[31m?');
  assert.equal(legible('x'.repeat(300)).length, 253);
});
