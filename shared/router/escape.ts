// Escaping: one function for each place of HAProxy's files where text of the cluster ends up. Every function takes any
// string and gives text that stays in its place: on one line, one word, one string. Whether the text makes sense was
// judged before; here a character that has no business in its place is replaced.

import { digestOf } from '../digest.ts';

/** Longest key of a map, in bytes: map files are read, and socket payloads sent, in pieces of `tune.bufsize` (at least 16 KiB). */
export const LONGEST_MAP_KEY = 8_192;

/** A plain argument, as a string in double quotes. Control characters become spaces. */
export function quoted(text: string): string {
  return `"${insideQuotes(text)}"`;
}

/** An argument that HAProxy reads as a log-format: literal text only. */
export function format(text: string): string {
  return quoted(text.replaceAll('%', '%%'));
}

/**
 * A header's value as a log-format. Literal but for `%%` (a percent) and the fetches that a route may use in that
 * direction: `%[req.hdr(NAME)]` or `%[res.hdr(NAME)]`, and `%[ssl_c_der]`, with the converters `lower` and `base64`.
 */
export function headerFormat(value: string, direction: 'request' | 'response'): string {
  const known = direction === 'request' ? REQUEST_FETCH : RESPONSE_FETCH;
  return quoted(value.replaceAll(/%%|%\[[^\]]*\]|%/g, (part) => (part === '%%' || known.test(part) ? part : part.replaceAll('%', '%%'))));
}

const REQUEST_FETCH = /^%\[(?:req\.hdr\([A-Za-z0-9_-]+\)|ssl_c_der)(?:,lower|,base64)*\]$/;
const RESPONSE_FETCH = /^%\[(?:res\.hdr\([A-Za-z0-9_-]+\)|ssl_c_der)(?:,lower|,base64)*\]$/;

/** A new path as a log-format: the literal target, then the variable that holds the rest of the path. */
export function pathFormat(target: string, restVariable: string): string {
  const literal = insideQuotes(percentEncoded(target).replaceAll('%', '%%'));
  return `"${literal}%[var(${restVariable})]"`;
}

/** A path as it stands in a request line: what cannot stand there as bytes in percent-encoding. */
export function percentEncoded(path: string): string {
  return path.replaceAll(/[^!-~]+/g, (run) =>
    [...Buffer.from(run, 'utf8')].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}

/**
 * An unquoted word: the name of a backend or a server, or a file. HAProxy's characters for names, and `/`, stay; when any other was
 * replaced, a digest keeps different texts apart.
 */
export function word(text: string): string {
  if (/^[A-Za-z0-9_.:/-]{1,512}$/.test(text)) return text;
  return `${text.slice(0, 256).replaceAll(/[^A-Za-z0-9_.:-]/g, '_')}-${digestOf(text).slice(0, 12)}`;
}

/** True when a map file can hold the key: white space ends a key, `#` at the line's start a comment begins, and the length has a limit. */
export function isMapKey(key: string): boolean {
  return !/[\p{Cc} ]|^#|^$/u.test(key) && Buffer.byteLength(key) <= LONGEST_MAP_KEY;
}

/** A line of a map file. The key satisfies `isMapKey`; the value becomes a word. */
export function mapLine(key: string, value: string): string {
  return `${key.replaceAll(/[\p{Cc} ]|^#/gu, '_')} ${word(value)}\n`;
}

/** A line of a crt-list: the certificate's file, the protocols that it offers by ALPN, the host (`*.example.com` for any label). */
export function crtListLine(path: string, alpn: readonly string[], host: string): string {
  const filter = host.startsWith('*.') ? `*.${word(host.slice(2))}` : word(host);
  return `${word(path)} [alpn ${alpn.map(word).join(',')}] ${filter}\n`;
}

function insideQuotes(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, ' ').replaceAll(/["\\$]/g, '\\$&');
}
