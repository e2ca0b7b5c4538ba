// Where a text stops being JSON. JSON.parse says so for some mistakes only, and differently in each release of Node.

const SPACE = /[ \t\n\r]*/y;
// oxlint-disable-next-line no-control-regex -- JSON forbids exactly these in a string
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/y;

/** What may stand next: a value, a value or the end of an empty list, a key (or the end of an empty object), `:`, or what follows a value. */
type Expected = 'value' | 'value-or-end' | 'key' | 'key-or-end' | 'colon' | 'next';

/** The offset of the first token that JSON does not allow there; the text's length when it ends too early or is JSON. */
export function firstOffence(text: string): number {
  const open: ('}' | ']')[] = [];
  let expected: Expected = 'value';
  let at = match(SPACE, text, 0);
  while (at < text.length && !(expected === 'next' && open.length === 0)) {
    const end = tokenEnd(text, at, expected);
    const closes = (expected === 'next' || expected.endsWith('-or-end')) && text[at] === open.at(-1);
    if (closes) {
      open.pop();
      expected = 'next';
    } else if (end === at) {
      return at;
    } else if (expected === 'next') {
      expected = open.at(-1) === '}' ? 'key' : 'value';
    } else if (expected === 'colon') {
      expected = 'value';
    } else if (expected === 'key' || expected === 'key-or-end') {
      expected = 'colon';
    } else if (text[at] === '{') {
      open.push('}');
      expected = 'key-or-end';
    } else if (text[at] === '[') {
      open.push(']');
      expected = 'value-or-end';
    } else {
      expected = 'next';
    }
    at = match(SPACE, text, closes ? at + 1 : end);
  }
  return at;
}

/** Where the expected token that begins here ends; the same place when another begins. */
function tokenEnd(text: string, at: number, expected: Expected): number {
  if (expected === 'colon') return text[at] === ':' ? at + 1 : at;
  if (expected === 'next') return text[at] === ',' ? at + 1 : at;
  if (expected === 'key' || expected === 'key-or-end') return match(STRING, text, at);
  if (text[at] === '{' || text[at] === '[') return at + 1;
  return Math.max(match(STRING, text, at), match(SCALAR, text, at));
}

/** Where a pattern that begins here ends; the same place when it does not match. */
function match(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}
