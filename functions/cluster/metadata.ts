// What every object begins with: its name and, for routes and services, the rest of `metadata`. Names are checked here,
// once: they stand in paths, rule comments and server names, so nothing but DNS-1123 text gets past.

import {
  type Fields,
  WrongField,
  optionalInteger,
  optionalObject,
  optionalText,
  pathOf,
  requiredObject,
  requiredText,
  text,
  textMap,
} from './fields.ts';
import type { ObjectMeta } from './objects.ts';

export interface NamespacedName {
  readonly namespace: string;
  readonly name: string;
}

const LABEL = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
const NAME = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/;

/** An object's name: the characters and the length (253) of a DNS-1123 subdomain. */
export function isObjectName(name: string): boolean {
  return name.length <= 253 && NAME.test(name);
}

/** A DNS-1123 label: the name of a namespace or of a port. */
export function isLabelName(name: string): boolean {
  return name.length <= 63 && LABEL.test(name);
}

/** The name of an object without a namespace. */
export function readName(whole: Fields): string {
  return checkedName(requiredObject(whole, 'metadata'), 'name', isObjectName);
}

/** Namespace (`default` when absent) and name. */
export function readNamespacedName(whole: Fields): NamespacedName {
  const metadata = requiredObject(whole, 'metadata');
  const name = checkedName(metadata, 'name', isObjectName);
  const namespace = optionalText(metadata, 'namespace') === null ? 'default' : checkedName(metadata, 'namespace', isLabelName);
  return { namespace, name };
}

/** All of the metadata that a route or a service is judged by. */
export function readMeta(whole: Fields): ObjectMeta {
  const metadata = requiredObject(whole, 'metadata');
  return {
    ...readNamespacedName(whole),
    uid: text(metadata, 'uid', ''),
    created: readCreated(metadata),
    generation: optionalInteger(metadata, 'generation', 0, Number.MAX_SAFE_INTEGER) ?? 0,
    labels: textMap(metadata, 'labels'),
    annotations: textMap(metadata, 'annotations'),
  };
}

/** The labels of an object. */
export function readLabels(whole: Fields): Readonly<Record<string, string>> {
  const metadata = optionalObject(whole, 'metadata');
  return metadata === null ? {} : textMap(metadata, 'labels');
}

/** Throws `InvalidName` for a name that Kubernetes would not take. */
export function checkedName(fields: Fields, key: string, isValid: (name: string) => boolean): string {
  const name = requiredText(fields, key);
  if (isValid(name)) return name;
  throw new WrongField(pathOf(fields, key), 'InvalidName', 'expected lowercase letters, digits, "-" and "." as in a DNS name');
}

const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

function readCreated(metadata: Fields): number {
  const written = optionalText(metadata, 'creationTimestamp');
  if (written === null) return 0;
  const ms = RFC3339.test(written) ? Date.parse(written) : Number.NaN;
  if (Number.isFinite(ms)) return Math.floor(ms / 1_000);
  throw new WrongField(pathOf(metadata, 'creationTimestamp'), 'WrongType', 'expected a time such as 2024-01-31T12:00:00Z');
}
