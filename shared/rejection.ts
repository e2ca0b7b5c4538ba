// Rejections: what was left out of a version, and why. Data, never an exception.

import { compareText } from './json.ts';

export interface Rejection {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** `object`: it is left out whole; `setting`: only this field of it (warnings too). */
  readonly scope: 'object' | 'setting';
  /** The path of the field (`spec.host`) or the annotation's full name; empty when it is the object itself. */
  readonly field: string;
  /** CamelCase, listed in infra/docs/rejections.md. */
  readonly reason: string;
  readonly message: string;
}

/** Rejections in their one order. */
export function sortRejections(rejections: readonly Rejection[]): Rejection[] {
  const key = (r: Rejection): string => [r.kind, r.namespace, r.name, r.scope, r.field, r.reason, r.message].join('\0');
  return rejections
    .map((rejection) => ({ rejection, key: key(rejection) }))
    .sort((a, b) => compareText(a.key, b.key))
    .map(({ rejection }) => rejection);
}

/** Text from the cluster as a message shows it: quoted, printable ASCII only (it reaches terminals), cut after 80 characters. */
export function shown(text: string): string {
  const cut = text.length > 80 ? `${text.slice(0, 80)}...` : text;
  return JSON.stringify(cut).replace(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
