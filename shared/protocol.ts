// The stream between functions and sidecars: WebSocket subprotocol `headgate.v1`. JSON in text frames; blobs in binary
// frames, each the 32-byte sha256 of the uncompressed bytes followed by the stored gzip.
//
//   sidecar: hello            -> functions: offer (now, and again whenever the head moves) | ahead
//   sidecar: want {digests}   -> functions: binary frames | gone
//   sidecar: result per role

import { z } from 'zod';
import { isDigest } from './digest.ts';
import { isSafePath } from './files.ts';

export const SUBPROTOCOL = 'headgate.v1';

const digest = z.string().refine(isDigest, 'not a sha256 in hex');
const role = z.enum(['router', 'service-proxy']);
const natural = z.number().int().nonnegative();
const nodeName = z
  .string()
  .min(1)
  .max(253)
  .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, 'not a node name');

/** A role's files: all of them, or what changes against the list whose content digest is `base`. */
const fileListSchema = z.object({
  base: digest.nullable(),
  put: z.record(z.string().refine(isSafePath, 'not a safe path'), z.object({ digest, size: natural })),
  remove: z.array(z.string()),
});
export type FileList = z.infer<typeof fileListSchema>;

export const helloSchema = z.object({
  type: z.literal('hello'),
  node: nodeName,
  roles: z.array(role).min(1),
  /** The highest sequence seen; 0: none. */
  sequence: natural,
  /** The id of the store whose heads the node follows; absent: none yet. */
  store: z.string().max(128).optional(),
  /** Content digest of the newest complete file list held for each role: the base of a delta. */
  content: z.object({ router: digest.nullable(), 'service-proxy': digest.nullable() }),
  /** Versions of what the node runs: `headgate`, `haproxy`, `iptables`. */
  tools: z.record(z.string().max(32), z.string().max(256)),
});
export type Hello = z.infer<typeof helloSchema>;

export const wantSchema = z.object({ type: z.literal('want'), digests: z.array(digest).max(100_000) });
export type Want = z.infer<typeof wantSchema>;

export const resultSchema = z.object({
  type: z.literal('result'),
  role,
  sequence: natural,
  version: natural,
  /** `applied`: runs; `refused`: the tool judged the content bad, it is not tried again; `failed`: tried again with backoff. */
  outcome: z.enum(['applied', 'refused', 'failed']),
  /** How it was applied: `start` (HAProxy was started with it), `reload`, `runtime` (socket commands), `restore` (full), `partial` (changed chains), `unchanged`. */
  how: z.enum(['start', 'reload', 'runtime', 'restore', 'partial', 'unchanged']).nullable(),
  /** What was being done when it failed; null when applied. */
  stage: z.string().max(32).nullable(),
  /** The tool's own words, or the reasons of a reload. */
  message: z.string().max(4096),
  durationMs: natural,
  /** ISO 8601, UTC, the node's clock. */
  time: z.string().max(40),
});
export type Result = z.infer<typeof resultSchema>;

/** What a node without WebSockets posts: what it would have said. */
export const reportSchema = z.object({ hello: helloSchema, results: z.array(resultSchema).max(8) });

export const nodeMessageSchema = z.discriminatedUnion('type', [helloSchema, wantSchema, resultSchema]);
export type NodeMessage = z.infer<typeof nodeMessageSchema>;

export const offerSchema = z.object({
  type: z.literal('offer'),
  /** head.json's bytes verbatim. */
  head: z.string(),
  /** For the roles of the hello. */
  files: z.partialRecord(role, fileListSchema),
});
export type Offer = z.infer<typeof offerSchema>;

/** The replica has not seen the node's sequence yet; it reads again and offers when it has. */
export const aheadSchema = z.object({ type: z.literal('ahead'), sequence: natural });
/** Blobs that are no longer there: the offer has ended, a newer one follows. */
export const goneSchema = z.object({ type: z.literal('gone'), digests: z.array(digest) });

export const hostMessageSchema = z.discriminatedUnion('type', [offerSchema, aheadSchema, goneSchema]);
export type HostMessage = z.infer<typeof hostMessageSchema>;
