import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { project } from '../../../functions/cluster/project.ts';

const METADATA = { name: 'shop-tls', namespace: 'web' };
const base64 = (text: string): string => Buffer.from(text).toString('base64');

function dataOf(fields: object): Record<string, string> {
  const projection = project('Secret', { metadata: METADATA, ...fields });
  assert.ok(projection?.projected?.kind === 'Secret', JSON.stringify(projection?.rejections));
  return Object.fromEntries([...projection.projected.object.data].map(([key, bytes]) => [key, Buffer.from(bytes).toString('utf8')]));
}

test('a certificate and its key, decoded; other entries are not kept', () => {
  const data = { 'tls.crt': base64('CERT'), 'tls.key': base64('KEY'), 'ca.crt': base64('CA'), password: base64('hunter2') };
  assert.deepEqual(dataOf({ type: 'kubernetes.io/tls', data }), { 'tls.crt': 'CERT', 'tls.key': 'KEY', 'ca.crt': 'CA' });
});

test('its type, Opaque when absent', () => {
  const data = { 'tls.crt': base64('CERT') };
  const typed = project('Secret', { metadata: METADATA, type: 'kubernetes.io/tls', data })?.projected;
  const untyped = project('Secret', { metadata: METADATA, data })?.projected;
  assert.ok(typed?.kind === 'Secret' && untyped?.kind === 'Secret');
  assert.deepEqual([typed.object.type, untyped.object.type], ['kubernetes.io/tls', 'Opaque']);
});

test('a Secret without a certificate says nothing to us, whatever else it holds', () => {
  assert.equal(project('Secret', { metadata: METADATA }), null);
  assert.equal(project('Secret', { metadata: METADATA, data: null }), null);
  assert.equal(project('Secret', { metadata: METADATA, data: { password: '!!' } }), null);
});

test('base64 may be folded over lines, as YAML writes it', () => {
  const folded = `${base64('A long certificate').slice(0, 8)}\r\n${base64('A long certificate').slice(8)}\n`;
  assert.deepEqual(dataOf({ data: { 'tls.crt': folded } }), { 'tls.crt': 'A long certificate' });
});

test('plain text of a manifest stands over the encoded', () => {
  const encoded = { 'tls.crt': base64('old'), 'tls.key': base64('KEY') };
  assert.deepEqual(dataOf({ data: encoded, stringData: { 'tls.crt': 'new' } }), { 'tls.crt': 'new', 'tls.key': 'KEY' });
  assert.deepEqual(dataOf({ stringData: { 'tls.crt': 'CERT' } }), { 'tls.crt': 'CERT' });
});

describe('what is not base64, or not text, rejects the Secret and is not repeated', () => {
  const secret = 'Hunter2!';
  const wrong: readonly (readonly [string, object])[] = [
    ['data.tls.crt', { data: { 'tls.crt': secret } }],
    ['data.tls.crt', { data: { 'tls.crt': 'QQ' } }],
    ['data.tls.crt', { data: { 'tls.crt': 'QQ=' } }],
    ['data.tls.crt', { data: { 'tls.crt': 'Q===' } }],
    ['data.tls.crt', { data: { 'tls.crt': 'QUI= ' } }],
    ['data.tls.crt', { data: { 'tls.crt': 'Q-I_' } }],
    ['data.tls.key', { data: { 'tls.crt': base64('CERT'), 'tls.key': secret } }],
    ['data.tls.crt', { data: { 'tls.crt': [secret] } }],
    ['stringData.tls.crt', { stringData: { 'tls.crt': { secret } } }],
    ['data', { data: [secret] }],
  ];
  for (const [field, fields] of wrong) {
    test(`${field}: ${JSON.stringify(fields)}`, () => {
      const projection = project('Secret', { metadata: METADATA, ...fields });
      assert.equal(projection?.projected, null);
      assert.deepEqual([projection?.rejections[0]?.field, projection?.rejections[0]?.reason], [field, 'WrongType']);
      assert.doesNotMatch(JSON.stringify(projection), /Hunter2/);
    });
  }
});
