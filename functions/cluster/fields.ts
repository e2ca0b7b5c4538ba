// Readers of JSON that nobody has checked: each takes a field of an object and gives its value in the type that is
// expected, or throws a WrongField that names it. By hand and not by a schema, because a cluster has 100,000 endpoints;
// a field's path is put together only when there is something to say about it.

/** A JSON object, and where it stands in the object that it is part of. */
export interface Fields {
  readonly values: Readonly<Record<string, unknown>>;
  readonly parent: Fields | null;
  /** Its key in the parent; empty for the whole. */
  readonly key: string;
  /** Its place in the list that the key names; -1 when it is no list's entry. */
  readonly index: number;
}

/** A field that cannot be read. Never leaves `functions/cluster`: it becomes a rejection of the object. */
export class WrongField extends Error {
  readonly field: string;
  readonly reason: string;

  /** The message does not repeat the field. */
  constructor(field: string, reason: string, message: string) {
    super(message);
    this.field = field;
    this.reason = reason;
  }
}

/** The whole object; null when the value is none. */
export function wholeObject(value: unknown): Fields | null {
  return isObject(value) ? { values: value, parent: null, key: '', index: -1 } : null;
}

/** The path of a field as a person writes it: `spec.ports[0].port`. */
export function pathOf(fields: Fields | null, key: string): string {
  if (fields === null || fields.parent === null) return key;
  const own = fields.index === -1 ? fields.key : `${fields.key}[${fields.index}]`;
  return `${pathOf(fields.parent, own)}.${key}`;
}

/** Text, or null when the field is absent, null or empty: the API does not tell these apart. */
export function optionalText(fields: Fields, key: string): string | null {
  const value = fields.values[key];
  if (typeof value === 'string') return value === '' ? null : value;
  return value === undefined || value === null ? null : wrongType(fields, key, 'text', value);
}

/** Text, or the fallback when there is none. */
export function text(fields: Fields, key: string, fallback: string): string {
  return optionalText(fields, key) ?? fallback;
}

/** Text that must be there and not be empty. */
export function requiredText(fields: Fields, key: string): string {
  return optionalText(fields, key) ?? wrongType(fields, key, 'text', undefined);
}

/** True or false, or null when the field is absent or null. */
export function optionalBoolean(fields: Fields, key: string): boolean | null {
  const value = fields.values[key];
  if (typeof value === 'boolean') return value;
  return value === undefined || value === null ? null : wrongType(fields, key, 'true or false', value);
}

/** A whole number within bounds, or null when the field is absent or null. Out of bounds is `OutOfRange`. */
export function optionalInteger(fields: Fields, key: string, least: number, most: number): number | null {
  const value = fields.values[key];
  if (value === undefined || value === null) return null;
  if (typeof value !== 'number' || !Number.isInteger(value)) return wrongType(fields, key, 'a whole number', value);
  if (value >= least && value <= most) return value;
  throw new WrongField(pathOf(fields, key), 'OutOfRange', `expected ${least} to ${most}, found ${value}`);
}

/** An object's fields, or null when the field is absent or null. */
export function optionalObject(fields: Fields, key: string): Fields | null {
  const value = fields.values[key];
  if (isObject(value)) return { values: value, parent: fields, key, index: -1 };
  return value === undefined || value === null ? null : wrongType(fields, key, 'an object', value);
}

/** An object that must be there. */
export function requiredObject(fields: Fields, key: string): Fields {
  return optionalObject(fields, key) ?? wrongType(fields, key, 'an object', undefined);
}

/** A list of objects; empty when the field is absent or null. */
export function objects(fields: Fields, key: string): readonly Fields[] {
  return list(fields, key).map((value, index) =>
    isObject(value) ? { values: value, parent: fields, key, index } : wrongType(fields, `${key}[${index}]`, 'an object', value),
  );
}

/** A list of text; empty when the field is absent or null. */
export function texts(fields: Fields, key: string): readonly string[] {
  const found = list(fields, key);
  if (isListOfText(found)) return found;
  const wrong = found.findIndex((value) => typeof value !== 'string');
  return wrongType(fields, `${key}[${wrong}]`, 'text', found[wrong]);
}

/** A map of text such as labels; empty when the field is absent or null. */
export function textMap(fields: Fields, key: string): Readonly<Record<string, string>> {
  const map = optionalObject(fields, key);
  if (map === null) return {};
  const entries = Object.entries(map.values).map(([name, value]): [string, string] => [
    name,
    typeof value === 'string' ? value : wrongType(map, legible(name), 'text', value),
  ]);
  return Object.fromEntries(entries);
}

/** Throws what a reader throws for a value of another type; the value itself is not repeated, it may be a secret. */
export function wrongType(fields: Fields, key: string, expected: string, value: unknown): never {
  throw new WrongField(pathOf(fields, key), 'WrongType', `expected ${expected}, found ${kindOfValue(value)}`);
}

/** Hostile text made fit to name an object or a field in a rejection: printable ASCII, at most 253 characters. */
export function legible(hostile: string): string {
  return hostile.slice(0, 253).replace(/[^\x21-\x7e]/g, '?');
}

function list(fields: Fields, key: string): readonly unknown[] {
  const value = fields.values[key];
  if (Array.isArray(value)) return value;
  return value === undefined || value === null ? NOTHING : wrongType(fields, key, 'a list', value);
}

const NOTHING: readonly never[] = [];

function isListOfText(values: readonly unknown[]): values is readonly string[] {
  return values.every((value) => typeof value === 'string');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function kindOfValue(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'an object';
  if (typeof value === 'string') return 'text';
  return typeof value === 'boolean' ? 'true or false' : 'a number';
}
