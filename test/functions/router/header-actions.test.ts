import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { HeaderAction } from '../../../functions/cluster/objects.ts';
import { readHeaderActions } from '../../../functions/router/header-actions.ts';
import { cases } from '../../fixtures/cases.ts';

type Direction = HeaderAction['direction'];

function set(value: string, direction: Direction = 'request', name = 'X-Test'): HeaderAction {
  return { direction, name, action: { type: 'Set', value } };
}

function remove(name: string, direction: Direction = 'request'): HeaderAction {
  return { direction, name, action: { type: 'Delete' } };
}

function isAccepted(action: HeaderAction): boolean {
  return readHeaderActions([action]).edits.length === 1;
}

describe('values', () => {
  const accepted: readonly (readonly [string, Direction?])[] = [
    ['text'],
    ['  spaced "quoted" \\ $HOME #{x} \' '],
    ['bücher'],
    ['100%%'],
    ['%%[not.a(fetch)]'],
    ['%[req.hdr(X-Other)]'],
    ['a %[req.hdr(X_1),lower] b %[ssl_c_der,base64]%%'],
    ['%[req.hdr(A),lower,base64,lower]'],
    ['%[ssl_c_der]', 'response'],
    ['%[res.hdr(A),base64]', 'response'],
    ['x'.repeat(16_384)],
  ];
  for (const [value, direction] of accepted) {
    test(`${JSON.stringify(value).slice(0, 60)} is set on a ${direction ?? 'request'}`, () => {
      assert.deepEqual(readHeaderActions([set(value, direction)]), {
        edits: [{ direction: direction ?? 'request', name: 'X-Test', action: 'set', value }],
        problems: [],
      });
    });
  }

  const refused: readonly (readonly [string, Direction?])[] = [
    [''],
    ['%'],
    ['100%'],
    ['%%%'],
    ['%T'],
    ['%{+Q}[ssl_c_der]'],
    ['%[env(SECRET)]'],
    ['%[req.hdr(A),map(/etc/passwd)]'],
    ['%[req.hdr(A)'],
    ['%[req.hdr()]'],
    ['%[req.hdr(A,1)]'],
    ['%[req.hdr(A) ]'],
    ['%[ req.hdr(A)]'],
    ["%[req.hdr('A')]"],
    ['%[req.hdr(A\n)]'],
    ['%[res.hdr(A)]'],
    ['%[req.hdr(A)]', 'response'],
    ['%[ssl_c_der,upper]'],
    ['a\nb'],
    ['a\rb'],
    ['a\0'],
    ['a\x7f'],
    ['a\x85'],
    ['a\ud800'],
    ['x'.repeat(16_385)],
    ['ü'.repeat(8_193)],
  ];
  for (const [value, direction] of refused) {
    test(`${JSON.stringify(value).slice(0, 60)} is refused on a ${direction ?? 'request'}`, () => {
      const { edits, problems } = readHeaderActions([set(value, direction)]);
      assert.deepEqual(edits, []);
      assert.deepEqual(
        problems.map(({ field, reason }) => [field, reason]),
        [[`spec.httpHeaders.actions.${direction ?? 'request'}[0]`, 'InvalidHeaderAction']],
      );
    });
  }
});

describe('names', () => {
  for (const name of ['Strict-Transport-Security', 'proxy', 'COOKIE', 'Set-Cookie', 'Content-Length', 'transfer-encoding', 'Connection']) {
    test(`${name} may not be changed`, () => {
      for (const direction of ['request', 'response'] as const) {
        assert.equal(isAccepted(set('x', direction, name)), false);
        assert.equal(isAccepted(remove(name, direction)), false);
      }
    });
  }

  test('Host may be set on requests only', () => {
    assert.equal(isAccepted(set('x', 'request', 'Host')), true);
    assert.equal(isAccepted(set('x', 'response', 'host')), false);
    assert.equal(isAccepted(remove('HOST')), false);
  });

  test('are tokens', () => {
    assert.equal(isAccepted(remove("X-a!#$%&'*+.^_`|~")), true);
    for (const name of ['', 'X A', 'X:', 'X"', 'X\n', 'Ü', '(X)', 'X'.repeat(256)]) assert.equal(isAccepted(remove(name)), false, name);
  });
});

test('a wrong action leaves out itself, the others keep their order', () => {
  const actions = [set('1', 'request', 'A'), set('%', 'request', 'B'), remove('C', 'response'), remove('D'), set('%', 'response', 'E')];
  const { edits, problems } = readHeaderActions([...actions, { direction: 'request', name: 'F', action: { type: 'Append' } }]);
  assert.deepEqual(
    edits.map(({ name }) => name),
    ['A', 'C', 'D'],
  );
  assert.deepEqual(
    problems.map(({ field }) => field),
    ['spec.httpHeaders.actions.request[1]', 'spec.httpHeaders.actions.response[1]', 'spec.httpHeaders.actions.request[3]'],
  );
});

test('no accepted value holds a control character or a percent sign of its own', () => {
  const part = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('%', '%%', '%[', ']', '%[req.hdr(A)]', ',lower', '%[ssl_c_der', '\n'),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
      const [edit] = readHeaderActions([set(parts.join(''))]).edits;
      if (edit === undefined || edit.action !== 'set') return;
      assert.doesNotMatch(edit.value, /[\p{Cc}\p{Cs}]/u);
      assert.doesNotMatch(edit.value.replaceAll('%%', '').replaceAll(/%\[(req\.hdr\(A\)|ssl_c_der)(,lower)*\]/g, ''), /%/);
    }),
    { numRuns: cases(5_000, 50_000) },
  );
});
