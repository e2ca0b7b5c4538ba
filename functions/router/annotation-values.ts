// Values of annotations: what each kind of value is, and how it is read. A parser takes hostile text and returns a value that
// is safe by its type or its grammar, or null.

import { parseAddress, parseCidr } from '../../shared/address.ts';
import { parseDuration } from '../../shared/duration.ts';
import { TOKEN } from './header-actions.ts';
import { pathFlaw } from './paths.ts';

export interface Parser<T> {
  /** null: malformed. */
  readonly parse: (text: string) => T | null;
  /** Stands after `expected`. */
  readonly expected: string;
}

/** One of these words, as written here. */
export function anyOf<const Word extends string>(...words: readonly Word[]): Parser<Word> {
  return { parse: (text) => words.find((word) => word === text) ?? null, expected: words.join(', ') };
}

/** Milliseconds, at least 1: to HAProxy 0 means for ever. */
export const duration: Parser<number> = {
  parse: (text) => parseDuration(text) || null,
  expected: 'a duration above 0 such as 5s, 300ms or 1h',
};

/** A count: 1 to 2147483647. A limit of 0 would mean nobody to one reader and no limit to another. */
export const natural: Parser<number> = {
  parse: (text) => (/^[1-9]\d{0,9}$/.test(text) && Number(text) <= 2_147_483_647 ? Number(text) : null),
  expected: 'a number from 1 to 2147483647',
};

export const rewriteTarget: Parser<string> = {
  parse: (text) => (pathFlaw(text) === null ? text : null),
  expected: 'a path that begins with / and holds no ?, #, space or control character',
};

export const cookieName: Parser<string> = {
  parse: (text) => (text.length <= 256 && TOKEN.test(text) ? text : null),
  expected: 'a name of a cookie: letters, digits and some punctuation, without spaces, quotes, = or ;',
};

/** The whole header, kept as written: its grammar leaves no room for anything else. */
export const hsts: Parser<string> = {
  parse: (text) => (/^max-age=\d{1,10}(?: ?; ?includeSubDomains)?(?: ?; ?preload)?$/i.test(text) ? text : null),
  expected: 'max-age=SECONDS, then optionally ;includeSubDomains and ;preload',
};

/** One item of an allow-list in canonical text; null when it is neither an address nor a CIDR. */
export function allowListItem(text: string): string | null {
  return parseCidr(text)?.text ?? parseAddress(text)?.text ?? null;
}
