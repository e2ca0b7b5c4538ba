// A manifest: the immutable list of what a version holds, path -> blob, and what is worth knowing about it. A manifest is
// itself a blob; it has no number (the head's swap gives it one).

import { z } from 'zod';
import { compareText } from './json.ts';
import { type Digest, digestOf, isDigest } from './digest.ts';
import { isSafePath } from './files.ts';
import { type PerRole, type Role, roleOfPath } from './role.ts';

const digest = z.string().refine(isDigest, 'not a sha256 in hex');

/** One file of a version. `size` is of the uncompressed bytes; `generation` is the folder of blobs that it was written under. */
export interface FileEntry {
  readonly digest: Digest;
  readonly size: number;
  readonly generation: number;
}

export interface Manifest {
  readonly format: 1;
  /** ISO 8601, UTC. Metadata: no part of the content. */
  readonly created: string;
  readonly trigger: string;
  /** Why the head was moved with it: an operator's words, or the trigger again. */
  readonly reason: string;
  readonly author: string;
  /** Number of the version whose configuration this is, when it was put back by a rollback; null: the cluster's own. */
  readonly configurationOf: number | null;
  readonly summary: Summary;
  readonly files: Readonly<Record<string, FileEntry>>;
}

/** Counts for people. */
export interface Summary {
  readonly routes: number;
  readonly services: number;
  readonly servers: number;
  readonly rejections: number;
}

export const manifestSchema = z.object({
  format: z.literal(1),
  created: z.string(),
  trigger: z.string(),
  reason: z.string(),
  author: z.string(),
  configurationOf: z.number().int().positive().nullable(),
  summary: z.object({ routes: z.number(), services: z.number(), servers: z.number(), rejections: z.number() }),
  files: z.record(
    z.string().refine(isSafePath, 'not a safe path'),
    z.object({ digest, size: z.number().int().nonnegative(), generation: z.number().int().nonnegative() }),
  ),
});

/** What a node is told of a file. */
export type NodeFile = Pick<FileEntry, 'digest' | 'size'>;

/** The files that a role runs. */
export function roleFiles<F extends NodeFile>(files: Readonly<Record<string, F>>, role: Role): Record<string, F> {
  return Object.fromEntries(Object.entries(files).filter(([path]) => roleOfPath(path) === role));
}

/**
 * The digest that stands for a set of files: sha256 over `path digest size` lines in the order of the paths. The head
 * names one for each role, so that a node can check the list that it was sent without seeing the rest of the manifest.
 */
export function contentDigest(files: Readonly<Record<string, NodeFile>>): Digest {
  const lines = Object.entries(files)
    .sort(([a], [b]) => compareText(a, b))
    .map(([path, file]) => `${path} ${file.digest} ${file.size}\n`);
  return digestOf(lines.join(''));
}

/** The content digests of a manifest's roles. */
export function contentOf(files: Readonly<Record<string, NodeFile>>): PerRole<Digest> {
  return { router: contentDigest(roleFiles(files, 'router')), 'service-proxy': contentDigest(roleFiles(files, 'service-proxy')) };
}

/** The digests of the configuration (without endpoints) that a manifest's roles were computed from: `configuration/<role>/`. */
export function configurationOf(files: Readonly<Record<string, NodeFile>>): PerRole<Digest> {
  const ofRole = (role: Role): Digest =>
    contentDigest(Object.fromEntries(Object.entries(files).filter(([path]) => path.startsWith(`configuration/${role}/`))));
  return { router: ofRole('router'), 'service-proxy': ofRole('service-proxy') };
}
