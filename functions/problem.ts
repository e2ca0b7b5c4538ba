// Refusals over HTTP: application/problem+json (RFC 9457), one shape for all of them.

import { errorMessage, HeadgateError } from '../shared/error.ts';
import { canonicalJson } from '../shared/json.ts';

export interface Problem {
  readonly status: number;
  /** Stable, in kebab-case: what scripts match on. */
  readonly code: string;
  readonly detail: string;
}

export const PROBLEM_TYPE = 'application/problem+json';

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Content Too Large',
  426: 'Upgrade Required',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** The title that belongs to a status. */
export function statusTitle(status: number): string {
  return TITLES[status] ?? 'Error';
}

/** The body of a refusal. */
export function problemText({ status, code, detail }: Problem): string {
  return `${canonicalJson({ type: 'about:blank', title: statusTitle(status), status, code, detail })}\n`;
}

/** Codes that are the asker's mistake, and the status that says so; every other error is ours. */
const STATUS_OF_CODE: Readonly<Record<string, number>> = {
  'unknown-version': 404,
  'unknown-file': 404,
  'no-versions': 409,
};

/** What to answer for an error that was thrown. */
export function problemOf(thrown: unknown): Problem {
  if (!(thrown instanceof HeadgateError)) return { status: 500, code: 'internal', detail: 'the request failed; the log says why' };
  const status = STATUS_OF_CODE[thrown.code] ?? (thrown.stage === 'usage' ? 400 : 503);
  return { status, code: thrown.code, detail: errorMessage(thrown) };
}
