// What is wrong with one field, told apart from whose field it is: the judges of single fields return problems, admission
// names the object and makes them rejections.

import type { Rejection } from '../../shared/rejection.ts';

export interface Problem {
  /** Path of the field or full name of the annotation, as in a rejection. */
  readonly field: string;
  /** CamelCase, listed in infra/docs/rejections.md. */
  readonly reason: string;
  /** Hostile text in it went through `shown`; never a certificate or a key. */
  readonly message: string;
}

/** Tells a problem from the value that a judge returns when all is well. */
export function isProblem(judged: unknown): judged is Problem {
  return typeof judged === 'object' && judged !== null && 'reason' in judged && 'field' in judged;
}

/** The problem as a rejection of a route, or of a setting of it. */
export function routeRejection(
  route: { readonly namespace: string; readonly name: string },
  scope: Rejection['scope'],
  problem: Problem,
): Rejection {
  return { kind: 'Route', namespace: route.namespace, name: route.name, scope, ...problem };
}
