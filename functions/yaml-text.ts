// YAML and JSON as text -> plain values, with the line of everything that is wrong. Aliases are limited, a key that stands
// twice is an error, and nothing is guessed.

import { type Document, LineCounter, parseAllDocuments, visit } from 'yaml';
import { errorMessage } from '../shared/error.ts';
import { shown } from '../shared/rejection.ts';
import { firstOffence } from './json-offence.ts';

/** One document of a text, and the line that it begins on. */
export interface TextDocument {
  readonly value: unknown;
  readonly line: number;
}

/** Text that cannot be parsed; whoever reads a file turns it into an error that names the file. */
export class UnparsableText extends Error {
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

/** How often an anchor may be used, through other anchors too: enough for people, too little for a bomb. */
const MAX_ALIASES = 1_000;

/** The documents of a YAML text; an empty one has the value null. Throws UnparsableText. */
export function parseYaml(text: string): TextDocument[] {
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, { lineCounter: lines, merge: true, prettyErrors: false, logLevel: 'error' });
  return Array.from(documents, (document) => {
    const line = lines.linePos(document.contents?.range?.[0] ?? document.range[0]).line;
    const [error] = document.errors;
    if (error !== undefined) throw new UnparsableText(Math.max(lines.linePos(error.pos[0]).line, 1), oneLine(error.message));
    try {
      return { value: document.toJS({ maxAliasCount: MAX_ALIASES }), line };
    } catch (thrown) {
      const message = oneLine(errorMessage(thrown));
      const at = message.startsWith('Unresolved alias') ? unresolvedAlias(document) : null;
      throw new UnparsableText(at === null ? line : lines.linePos(at).line, message);
    }
  });
}

/** A JSON text. Throws UnparsableText. */
export function parseJson(text: string): TextDocument {
  try {
    return { value: JSON.parse(text), line: 1 };
  } catch {
    const offence = firstOffence(text);
    const line = text.slice(0, offence).split('\n').length;
    const found = offence < text.length ? `unexpected ${shown(text[offence] ?? '')}` : 'the text ends too early';
    throw new UnparsableText(line, `not JSON: ${found}`);
  }
}

/** Where an alias without an anchor stands: the parser says only that there is one. */
function unresolvedAlias(document: Document.Parsed): number | null {
  let at: number | null = null;
  visit(document, {
    Alias(_key, alias) {
      if (alias.resolve(document) !== undefined) return undefined;
      at = alias.range?.[0] ?? null;
      return visit.BREAK;
    },
  });
  return at;
}

/** The parser's words on one line, in printable ASCII, without the text that it quotes: that may be part of a secret. */
function oneLine(message: string): string {
  return message
    .replace(/\s+/g, ' ')
    .replace(/: .*$/, '')
    .replace(/[^\x20-\x7e]/g, '?')
    .trim();
}
