// Handlebars as we use it: strict (a name that does not exist is an error), no HTML escaping, and our own functions that
// put text where HAProxy reads it. The only place that knows the template engine.

import Handlebars from 'handlebars';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import { secretPlaceholder, serversPlaceholder } from '../../shared/router/compose.ts';
import { format, headerFormat, pathFormat, quoted, word } from '../../shared/router/escape.ts';

/** Prints one value; throws HeadgateError `bad-template`. */
export type Print = (value: object) => string;

const HELPERS = {
  /** Escaping; see shared/router/escape.ts. */
  quoted: (text: unknown) => quoted(textOf(text)),
  format: (text: unknown) => format(textOf(text)),
  word: (text: unknown) => word(textOf(text)),
  headerFormat: (value: unknown, direction: unknown) => headerFormat(textOf(value), direction === 'request' ? 'request' : 'response'),
  pathFormat: (target: unknown, restVariable: unknown) => pathFormat(textOf(target), word(textOf(restVariable))),
  /** Conditions: equal; not null (0 counts). */
  is: (a: unknown, b: unknown) => existing(a) === b,
  given: (value: unknown) => existing(value) !== null,
  /** Where the backend's server lines go. */
  servers: (options: { readonly data: { readonly root: { readonly name: string } } }) => serversPlaceholder(options.data.root.name),
  /** Where a node puts a secret, in quotes; in the base only. */
  secret: (name: unknown) => secretPlaceholder(textOf(name)),
};

function textOf(value: unknown): string {
  const found = existing(value);
  if (typeof found === 'string' || typeof found === 'number') return String(found);
  throw new Error('a helper was given what is neither text nor a number');
}

/** Handlebars is not strict about what it gives to a helper. */
function existing(value: unknown): unknown {
  if (value === undefined) throw new Error('a helper was given a name that does not exist');
  return value;
}

const engine = Handlebars.create();
for (const [name, helper] of Object.entries(HELPERS)) engine.registerHelper(name, helper);
const knownHelpers = Object.fromEntries(Object.keys(HELPERS).map((name) => [name, true]));

/**
 * Compiles a template.
 * @param name for messages: `base`, `backend`
 */
export function compileTemplate(name: string, source: string): Print {
  const guarded = <T>(work: () => T): T => {
    try {
      return work();
    } catch (cause) {
      throw new HeadgateError('bad-template', 'compute', `template ${name}.hbs${lineOf(cause)}: ${errorMessage(cause)}`, { cause });
    }
  };
  const template = guarded(() => engine.compile(source, { noEscape: true, strict: true, knownHelpers, knownHelpersOnly: true }));
  return (value) => guarded(() => template(value));
}

/** Syntax errors say `Parse error on line 3`, names that do not exist `"x" not defined in ... - 3:4`. */
function lineOf(thrown: unknown): string {
  const message = errorMessage(thrown);
  const line = /on line (\d+)/.exec(message)?.[1] ?? / - (\d+):\d+/.exec(message)?.[1];
  return line === undefined ? '' : ` line ${line}`;
}
