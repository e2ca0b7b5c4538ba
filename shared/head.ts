// The head: what nodes should run. The one mutable object that decides anything; moved only by compare-and-swap.

import { z } from 'zod';
import { type Digest, isDigest } from './digest.ts';
import { HeadgateError } from './error.ts';
import { canonicalJson } from './json.ts';
import type { PerRole, Role } from './role.ts';

/** A version as the head names it. */
export interface VersionRef {
  readonly number: number;
  /** Digest of the manifest's bytes, which are the blob of that name. */
  readonly manifest: Digest;
  /** The folder of blobs that the manifest was written under. */
  readonly generation: number;
  readonly content: PerRole<Digest>;
  readonly configuration: PerRole<Digest>;
}

export interface Pin {
  /** The version whose configuration is held. */
  readonly version: number;
  readonly roles: readonly Role[];
  /** True: that version's exact bytes, endpoints included. */
  readonly freeze: boolean;
  /** Who holds it, and why. */
  readonly author: string;
  readonly reason: string;
}

export interface Head {
  readonly format: 1;
  /** The store's id, from store.json: a head of another store is refused. */
  readonly store: string;
  /** Rises by one with every move, rollbacks too. */
  readonly sequence: number;
  /** Unique to the swap, so that one whose answer was lost can be recognised. */
  readonly writer: string;
  readonly author: string;
  readonly reason: string;
  /** ISO 8601, UTC: when the move was made. */
  readonly time: string;
  /** What nodes run. */
  readonly target: VersionRef;
  /** The version with the highest number. */
  readonly latest: VersionRef;
  /** The newest version of the cluster's own configuration: `target`, unless a pin makes it wait. */
  readonly newest: VersionRef;
  readonly pin: Pin | null;
  /** Reserved for staged rollouts. */
  readonly rollout: null;
  /** The generation under which new blobs are written. */
  readonly gc: number;
  /** Base64 Ed25519 over the head's canonical JSON without this field; null on an unsigned store. */
  readonly signature: string | null;
}

const digest = z.string().refine(isDigest, 'not a sha256 in hex');
const perRole = z.object({ router: digest, 'service-proxy': digest });
const natural = z.number().int().nonnegative();

export const versionRefSchema = z.object({
  number: z.number().int().positive(),
  manifest: digest,
  generation: natural,
  content: perRole,
  configuration: perRole,
});

export const headSchema = z.object({
  format: z.literal(1),
  store: z.string(),
  sequence: z.number().int().positive(),
  writer: z.string(),
  author: z.string(),
  reason: z.string(),
  time: z.string(),
  target: versionRefSchema,
  latest: versionRefSchema,
  newest: versionRefSchema,
  pin: z
    .object({
      version: z.number().int().positive(),
      roles: z.array(z.enum(['router', 'service-proxy'])),
      freeze: z.boolean(),
      author: z.string(),
      reason: z.string(),
    })
    .nullable(),
  rollout: z.null(),
  gc: natural,
  signature: z.string().nullable(),
});

/**
 * Reads head.json.
 * @param where names it in the error
 * @throws HeadgateError `bad-head` (stage `verify`) when the text is not a head as this release writes it
 */
export function parseHead(text: string, where = 'head.json'): Head {
  try {
    return headSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new HeadgateError(
      'bad-head',
      'verify',
      `${where} is not a head that this release understands; restore it from heads/ or upgrade`,
      { cause },
    );
  }
}

/** The head's bytes in the store. */
export function headText(head: Head): string {
  return `${canonicalJson(head)}\n`;
}

/** The author of moves that no person asked for. */
export const RECONCILER = 'reconcile';

/** True when a person made the move: a rollback or a resume. */
export function movedByHand(head: Pick<Head, 'author'>): boolean {
  return head.author !== RECONCILER;
}
