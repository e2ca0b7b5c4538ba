import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isSealed, openSealed, parseSealingKey, sealFile } from '../../shared/seal.ts';

const key = parseSealingKey(Buffer.alloc(32, 1).toString('base64'), 'key');
const other = parseSealingKey('02'.repeat(32), 'other');

test('what is sealed opens again under its path and key only', () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.string({ minLength: 1 }), (content, path) => {
      const sealed = sealFile(content, key, path);
      assert.ok(isSealed(sealed));
      assert.deepEqual(openSealed(sealed, [other, key], path), Buffer.from(content));
      assert.throws(() => openSealed(sealed, [key], `${path}x`), { code: 'seal-broken' });
      assert.throws(() => openSealed(sealed, [other], path), { code: 'no-sealing-key' });
    }),
  );
});

test('the same content under the same path gives the same bytes, elsewhere others', () => {
  assert.deepEqual(sealFile('pem', key, 'a'), sealFile('pem', key, 'a'));
  assert.notDeepEqual(sealFile('pem', key, 'a'), sealFile('pem', key, 'b'));
  assert.notDeepEqual(sealFile('pem', key, 'a'), sealFile('pem', other, 'a'));
});

test('every flipped or missing byte is noticed', () => {
  const sealed = sealFile('-----BEGIN PRIVATE KEY-----', key, 'p');
  for (let at = 0; at < sealed.length; at += 1) {
    const broken = Buffer.from(sealed);
    broken.writeUInt8(broken.readUInt8(at) ^ 1, at);
    if (isSealed(broken)) assert.throws(() => openSealed(broken, [key], 'p'));
    assert.throws(() => openSealed(sealed.subarray(0, at), [key], 'p'));
  }
});

test('a key that is none is refused without being echoed', () => {
  const text = randomBytes(16).toString('base64');
  assert.throws(
    () => parseSealingKey(text, 'key.txt'),
    (error: Error) => error.message.includes('key.txt') && !error.message.includes(text),
  );
});
