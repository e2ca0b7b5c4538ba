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
