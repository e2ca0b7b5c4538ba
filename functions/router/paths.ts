// Paths of routes: what `spec.path` and the rewrite target may hold. They are literal text: quotes, percent signs,
// backslashes and letters of any language stand for themselves.

import { percentEncoded } from '../../shared/router/escape.ts';

/** Bytes of UTF-8. A path is part of a map's key, and one payload of HAProxy's runtime socket must hold a whole entry. */
const LONGEST = 2_048;

/** What ends a path (`?`, `#`), a line or a word, and halves of surrogate pairs, which have no bytes of their own. */
const FORBIDDEN = /[?# \p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u;

/** The path as a client sends it: letters beyond ASCII as bytes in percent-encoding. */
export function requestedPath(path: string): string {
  return path.replaceAll(/[\u0080-\uffff]+/g, percentEncoded);
}

/** What is wrong with a path, to stand after its name; null when it may be used. */
export function pathFlaw(path: string): string | null {
  if (!path.startsWith('/')) return 'must begin with /';
  if (FORBIDDEN.test(path)) return 'must not hold ?, #, a space or a control character';
  return Buffer.byteLength(path) > LONGEST ? `must not be longer than ${LONGEST} bytes` : null;
}
