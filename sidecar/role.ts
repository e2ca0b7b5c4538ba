// What follow-head needs of a role: apply this content to the node, and say how it went. Implementations:
// haproxy/apply.ts (router) and iptables/apply.ts (service proxy). They know nothing of streams and heads.

import type { Digest } from '../shared/digest.ts';
import type { Files } from '../shared/files.ts';
import type { Result } from '../shared/protocol.ts';
import type { Role } from '../shared/role.ts';

/** A role's content to run: verified, uncompressed, unsealed; complete but for files that the applier remembers. */
export interface RoleTarget {
  readonly version: number;
  readonly sequence: number;
  readonly content: Digest;
  /** When the head was moved to it, ms since the epoch by the clock of who moved it. */
  readonly movedAt: number;
  /** The role's files of the version, as shards: `router/...` or `iptables/...`. */
  readonly files: Files;
  /** Digests of all the role's files; absent: `files` holds all of them. */
  readonly digests?: ReadonlyMap<string, Digest>;
}

/** How an application went: see protocol.ts. */
export type RoleOutcome = Pick<Result, 'outcome' | 'how' | 'stage' | 'message' | 'durationMs'>;

export interface Drift {
  /** In words, one line each, for the log: what was found different and put right. */
  readonly repaired: readonly string[];
  /** True: what was applied is no longer on the node, and must be applied again. */
  readonly lost?: boolean;
}

export interface RoleApplier {
  readonly role: Role;
  /** Versions of the tools found (`haproxy`, `iptables`), for hello and status. */
  tools(): Promise<Readonly<Record<string, string>>>;
  /** Paths of the files that it must be given to apply a content: it remembers what it made of the others. Absent: all. */
  needs?(digests: ReadonlyMap<string, Digest>): readonly string[];
  /**
   * Makes the node run the content and confirms it. Never throws for what the node or the content did wrong: that is the outcome. Calls
   * do not overlap. When it is aborted the node runs either the content before or the new one.
   */
  apply(target: RoleTarget, signal: AbortSignal): Promise<RoleOutcome>;
  /** Compares what runs with what was applied last and puts it right; cheap when nothing moved. Not called while `apply` runs. */
  repairDrift(signal: AbortSignal): Promise<Drift>;
  /** True when traffic is served from applied content now. */
  ready(): Promise<boolean>;
  /** Lets go of sockets and timers. What runs (HAProxy, rules) keeps running. */
  close(): Promise<void>;
}
