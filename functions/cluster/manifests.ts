// Manifests as text -> the objects that they hold, as kinds and raw JSON: several documents in a file, and lists of
// objects (`List`, `RouteList`) in a document. A text that is no manifest is an error that names file and line.

import { HeadgateError } from '../../shared/error.ts';
import { shown } from '../../shared/rejection.ts';
import { type TextDocument, UnparsableText, parseJson, parseYaml } from '../yaml-text.ts';
import { wholeObject } from './fields.ts';
import { type Projection, kindOf, project } from './project.ts';

/**
 * The projections of every object of a manifest that says something to us.
 * @param file named in the error; JSON when it ends in `.json`
 * @throws HeadgateError `bad-manifest` (stage `read-cluster`), one line: `<file>:<line>: ...`
 */
export function readManifests(text: string, file: string): Projection[] {
  return documentsOf(text, file).flatMap(({ value, line }) =>
    value === null || value === undefined
      ? []
      : objectsOf(value, { apiVersion: null, kind: null, depth: 0 }, (message) => badManifest(file, line, message)),
  );
}

/** What an object's list says of its items, which may say nothing themselves. */
interface ItemType {
  readonly apiVersion: string | null;
  readonly kind: string | null;
  /** How many lists the item is in. */
  readonly depth: number;
}

/** Lists within lists that are followed: nobody writes more than two. */
const DEEPEST = 16;

type Refuse = (message: string) => HeadgateError;

function documentsOf(text: string, file: string): readonly TextDocument[] {
  try {
    return file.endsWith('.json') ? [parseJson(text)] : parseYaml(text);
  } catch (thrown) {
    if (thrown instanceof UnparsableText) throw badManifest(file, thrown.line, thrown.message);
    throw thrown;
  }
}

function objectsOf(raw: unknown, listed: ItemType, refuse: Refuse): Projection[] {
  const values = wholeObject(raw)?.values;
  if (values === undefined) throw refuse('expected an object with apiVersion and kind');
  const kind = values['kind'] ?? listed.kind;
  const apiVersion = values['apiVersion'] ?? listed.apiVersion;
  if (typeof kind !== 'string' || kind === '') throw refuse('the object has no kind');
  if (typeof apiVersion !== 'string' || apiVersion === '') throw refuse(`the object of kind ${shown(kind)} has no apiVersion`);
  if (isList(kind, values)) {
    const depth = listed.depth + 1;
    if (depth > DEEPEST) throw refuse(`lists within lists, more than ${DEEPEST} deep`);
    const itemType = kind === 'List' ? { apiVersion: null, kind: null, depth } : { apiVersion, kind: kind.slice(0, -'List'.length), depth };
    const items = values['items'] ?? [];
    if (!Array.isArray(items)) throw refuse(`items of ${shown(kind)}: expected a list`);
    return items.flatMap((item: unknown) => objectsOf(item, itemType, refuse));
  }
  const known = kindOf(apiVersion, kind);
  const projection = known === null ? null : project(known, raw);
  return projection === null ? [] : [projection];
}

/** A custom resource may be named like a list (`AllowList`): only `items` tells. */
function isList(kind: string, values: Readonly<Record<string, unknown>>): boolean {
  return kind === 'List' || (kind.endsWith('List') && 'items' in values);
}

function badManifest(file: string, line: number, message: string): HeadgateError {
  return new HeadgateError('bad-manifest', 'read-cluster', `${file}:${line}: ${message}`);
}
