import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileTemplate } from '../../../functions/router/template.ts';
import { HeadgateError } from '../../../shared/error.ts';

function refusal(source: string, value: object = {}): string {
  try {
    compileTemplate('backend', source)(value);
  } catch (error) {
    assert.ok(error instanceof HeadgateError, String(error));
    assert.equal(error.code, 'bad-template');
    return error.message;
  }
  return assert.fail(`expected a refusal of ${source}`);
}

test('values stand as they are, or as a helper escapes them', () => {
  const print = compileTemplate(
    'backend',
    '{{name}} {{quoted name}} {{word number}}{{#if (is name "a<b")}} same{{/if}}{{#if (given none)}} none{{/if}}',
  );
  assert.equal(print({ name: 'a<b', number: 0, none: null }), 'a<b "a<b" 0 same');
});

test('a name that does not exist is an error wherever it stands', () => {
  for (const source of [
    '{{nme}}',
    '{{word nme}}',
    '{{headerFormat nme "request"}}',
    '{{#if (is nme "a")}}{{/if}}',
    '{{#if (given nme)}}{{/if}}',
  ]) {
    assert.match(refusal(`backend\n${source}`, { name: 'a' }), /^template backend\.hbs/, source);
  }
  assert.match(refusal('backend\n{{nme}}'), /line 2/);
  assert.match(refusal('{{word name}}', { name: {} }), /neither text nor a number/);
});

test('a template that does not parse is an error with its line', () => {
  assert.match(refusal('backend\n{{word name}'), /^template backend\.hbs line 2: /);
});
