// Which content a role should be brought to next. Pure: what is remembered, what runs and what failed go in, one step
// comes out. The role's loop carries it out and asks again.

import type { Digest } from '../shared/digest.ts';
import { type Head, movedByHand } from '../shared/head.ts';
import { canonicalJson } from '../shared/json.ts';
import type { Role } from '../shared/role.ts';
import type { KeptContent, RefusedContent, RoleRecord } from './last-known-good.ts';

/** Tries of one content that failed in a row, and when it may be tried again (ms on the caller's clock). */
export interface Failure {
  readonly count: number;
  readonly retryAt: number;
}

/** What this process has done so far. */
export interface Progress {
  /** The content that this process applied last; null: none yet. */
  readonly running: Digest | null;
  /** False after an application that failed: how far it came is not known, so that even what ran before is applied again. */
  readonly settled: boolean;
  readonly failures: ReadonlyMap<Digest, Failure>;
}

/** `apply` a content, or `wait` until a time (ms on the caller's clock; null: until something changes). */
export type Step = { readonly do: 'apply'; readonly kept: KeptContent } | { readonly do: 'wait'; readonly until: number | null };

/**
 * The wanted content comes first. While this process has applied nothing and the wanted content is refused or fails, the content applied
 * last is next best: a node that comes up serves what it served.
 */
export function nextStep(role: Role, record: RoleRecord, progress: Progress, now: number): Step {
  const candidates = candidatesOf(role, record, progress);
  const due = candidates.find((kept) => (progress.failures.get(kept.head.target.content[role])?.retryAt ?? 0) <= now);
  if (due !== undefined) return { do: 'apply', kept: due };
  const times = candidates.flatMap((kept) => progress.failures.get(kept.head.target.content[role])?.retryAt ?? []);
  return { do: 'wait', until: times.length === 0 ? null : Math.min(...times) };
}

function candidatesOf(role: Role, record: RoleRecord, { running, settled }: Progress): KeptContent[] {
  const { wanted, applied } = record;
  if (wanted === null) return [];
  const content = wanted.head.target.content[role];
  if (content === running && settled) return [];
  const candidates = standingRefusal(role, record, wanted.head) === null ? [wanted] : [];
  if (running === null && applied !== null && applied.head.target.content[role] !== content) candidates.push(applied);
  return candidates;
}

/**
 * The refusal that keeps a head's content from being tried, or null. It stands until the head is moved to that content by hand: by a
 * rollback or a resume, seen either in the move itself or in a pin that is another one since.
 */
export function standingRefusal(role: Role, record: RoleRecord, head: Head): RefusedContent | null {
  const content = head.target.content[role];
  const refusal = record.refused.find((refused) => refused.head.target.content[role] === content);
  if (refusal === undefined) return null;
  const again = movedByHand(head) && head.sequence > refusal.head.sequence;
  return again || canonicalJson(head.pin) !== canonicalJson(refusal.head.pin) ? null : refusal;
}
