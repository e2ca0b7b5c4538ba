// The journal: written before each step that a kill could cut in half, so that the next start knows what the running worker
// may hold. One entry, replaced.

import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { type Digest, isDigest } from '../../shared/digest.ts';
import { replaceFileDurably } from '../../shared/durable-file.ts';
import { canonicalJson } from '../../shared/json.ts';
import type { WorkerInfo } from './readback.ts';

const digest = z.string().refine(isDigest);

const entrySchema = z.object({
  /** The generation that ran before; null: none, or not known. */
  from: digest.nullable(),
  to: digest,
  /** `commands`, `reload`, `start`: begun. `applied`: `pid` runs `to`. */
  stage: z.enum(['commands', 'reload', 'start', 'applied']),
  /** The worker that ran when the entry was written; null: none. No worker gets commands that is not named here. */
  pid: z.number().int().nullable(),
});
export type JournalEntry = z.infer<typeof entrySchema>;

export async function writeJournal(path: string, entry: JournalEntry): Promise<void> {
  await replaceFileDurably(path, `${canonicalJson(entry)}\n`);
}

/** The entry; null when there is none, or none that can be read: then only what HAProxy says counts. */
export async function readJournal(path: string): Promise<JournalEntry | null> {
  try {
    return entrySchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return null;
  }
}

/**
 * The generation that a worker runs. A worker that the journal does not name got no commands, so it runs what it loaded; one whose
 * commands were cut off runs something between: null.
 */
export function runningGeneration(entry: JournalEntry | null, worker: WorkerInfo): Digest | null {
  if (entry === null || entry.pid !== worker.pid) return isDigest(worker.description) ? worker.description : null;
  if (entry.stage === 'applied') return entry.to;
  return entry.stage === 'commands' ? null : entry.from;
}
