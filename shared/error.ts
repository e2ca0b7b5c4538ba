// The one error class of Headgate. A wrong route, service or setting is not an error: it is a rejection (see rejection.ts).

/** Where in the work an error arose; printed, and a label of metrics. */
export type Stage =
  | 'usage'
  | 'options'
  | 'read-cluster'
  | 'compute'
  | 'store'
  | 'publish'
  | 'stream'
  | 'fetch'
  | 'verify'
  | 'keep'
  | 'plan'
  | 'check'
  | 'apply'
  | 'confirm'
  | 'serve';

/** An error that an operator reads: the message says what failed, where, and what to do about it. */
export class HeadgateError extends Error {
  override readonly name = 'HeadgateError';
  /** Stable and in kebab-case, e.g. `unknown-option`; scripts and tests match on it. */
  readonly code: string;
  readonly stage: Stage;

  constructor(code: string, stage: Stage, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.stage = stage;
  }
}

/** The words of whatever was thrown, on one line, for a message or a report. */
export function errorMessage(thrown: unknown): string {
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return text.replace(/\s*\n\s*/g, ' ').trim();
}

/** The system's error code (`ENOENT`, `EADDRINUSE`), when what was thrown carries one. */
export function errnoCode(thrown: unknown): string | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('code' in thrown)) return undefined;
  return typeof thrown.code === 'string' ? thrown.code : undefined;
}
