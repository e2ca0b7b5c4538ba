import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import {
  crtListLine,
  format,
  headerFormat,
  isMapKey,
  LONGEST_MAP_KEY,
  mapLine,
  pathFormat,
  quoted,
  word,
} from '../../../shared/router/escape.ts';
import { freePorts, noHaproxy, whileServing } from '../../fixtures/run-haproxy.ts';

/** Text with what breaks out of quotes, words, lines and formats. */
const hostile = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({
    unit: fc.constantFrom(
      '"',
      "'",
      '\\',
      '$',
      '{',
      '}',
      '%',
      '[',
      ']',
      '#',
      ' ',
      '\n',
      '\r',
      '\t',
      '\0',
      '\u2028',
      '\u0085',
      'a',
      ':',
      '/',
      '<',
      '>',
    ),
  }),
);

describe('text stays in its place', () => {
  test('in quotes: one line, one string, whose content is the text with spaces for control characters', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const written = quoted(text);
        assert.ok(!/[\r\n\0]/.test(written));
        assert.match(written, /^"(?:[^"\\$]|\\["\\$])*"$/);
        assert.equal(written.slice(1, -1).replaceAll(/\\(.)/g, '$1'), text.replaceAll(/\p{Cc}/gu, ' '));
      }),
    );
  });

  test('in a format: every percent is doubled, but for what a header may fetch', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        for (const written of [
          format(text),
          headerFormat(text, 'request'),
          headerFormat(text, 'response'),
          pathFormat(text, 'txn.rest').replace('%[var(txn.rest)]', ''),
        ]) {
          assert.match(written, /^"(?:[^"\\$]|\\["\\$])*"$/);
          assert.ok(!/[\r\n\0]/.test(written));
          assert.ok(
            !written
              .replaceAll('%%', '')
              .replaceAll(/%\[(?:re[qs]\.hdr\([\w-]+\)|ssl_c_der)(?:,\w+)*\]/g, '')
              .includes('%'),
            written,
          );
        }
      }),
    );
    assert.equal(headerFormat('%[req.hdr(X-A),lower]%[ssl_c_der,base64]%%', 'request'), '"%[req.hdr(X-A),lower]%[ssl_c_der,base64]%%"');
    assert.equal(headerFormat('%[req.hdr(X-A)]', 'response'), '"%%[req.hdr(X-A)]"');
    assert.equal(
      headerFormat('%[env(HOME)] %[req.hdr(X),map(/etc/passwd)] %', 'request'),
      '"%%[env(HOME)] %%[req.hdr(X),map(/etc/passwd)] %%"',
    );
  });

  test('as a word: no white space, quotes or other meaning, and different texts stay apart', () => {
    fc.assert(fc.property(hostile, (text) => assert.match(word(text), /^[A-Za-z0-9_.:/-]+$/)));
    fc.assert(fc.property(hostile, hostile, (a, b) => assert.equal(word(a) === word(b), a === b)));
    assert.equal(word('be_http:ns:name'), 'be_http:ns:name');
  });

  test('in a map and in a crt-list: exactly one line of exactly its fields', () => {
    fc.assert(
      fc.property(hostile, hostile, (key, value) => {
        const line = mapLine(key, value);
        assert.equal(line.split('\n').length, 2);
        assert.equal(line.trimEnd().split(' ').length, 2);
        if (isMapKey(key)) assert.equal(line.slice(0, line.indexOf(' ')), key);
        assert.match(crtListLine(value, ['h2', value], key), /^[^\s"']+ \[alpn h2,[^\s"'\]]+\] [^\s"']+\n$/);
      }),
    );
    assert.ok(!['', '#a', 'a b', 'a\tb', 'a\nb', `/${'a'.repeat(LONGEST_MAP_KEY)}`].some(isMapKey));
    assert.ok(['a#b', 'h/"\'\\%$é'].every(isMapKey));
    assert.equal(crtListLine('certificates/a.pem', ['http/1.1'], '*.example.com'), 'certificates/a.pem [alpn http/1.1] *.example.com\n');
  });

  test('HAProxy reads quoted text and formats back as they were', { skip: noHaproxy }, async () => {
    const texts = fc.sample(hostile, { numRuns: 200, seed: 7 }).filter((text) => !/\p{Cc}|^ | $|^$/u.test(text) && !/\p{Cs}/u.test(text));
    const [port = 0] = await freePorts(1);
    const answers = texts.flatMap((text, index) => [
      `  http-request return status 200 hdr X-Text ${format(text)} if { path /format/${index} }`,
      `  http-request return status 200 content-type text/plain string ${quoted(text)} if { path /quoted/${index} }`,
    ]);
    const timeouts = ['  timeout client 10s', '  timeout server 10s', '  timeout connect 10s'];
    const config = ['defaults', '  mode http', ...timeouts, 'frontend f', `  bind 127.0.0.1:${port}`, ...answers, ''].join('\n');
    assert.ok(texts.length > 50);
    await whileServing(new Map([['router/config/a.cfg', config]]), port, async () => {
      for (const [index, text] of texts.entries()) {
        const formatted = await fetch(`http://127.0.0.1:${port}/format/${index}`);
        assert.equal(Buffer.from(formatted.headers.get('x-text') ?? '', 'latin1').toString('utf8'), text);
        assert.equal(await (await fetch(`http://127.0.0.1:${port}/quoted/${index}`)).text(), text);
      }
    });
  });
});
