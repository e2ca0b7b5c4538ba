// The trail of a head: `heads/<sequence>.json`, the head as it was, and `versions/<number>.json`, the record of the version
// that it numbered. The head alone decides; the trail is its history. A mover completes the trail of the head that it read before
// it swaps, and writes its own after: so whoever crashes, no sequence and no number is without its record once the next has moved.

import { z } from 'zod';
import { HeadgateError } from '../error.ts';
import { type Head, parseHead, type VersionRef, versionRefSchema } from '../head.ts';
import { canonicalJson } from '../json.ts';
import { type Manifest, manifestSchema } from '../manifest.ts';
import type { ObjectStore } from '../object-store/object-store.ts';
import type { HeadRevision, VersionRecord } from '../version-store.ts';

const recordSchema = versionRefSchema.extend({
  sequence: z.number().int().positive(),
  ...manifestSchema.pick({ created: true, trigger: true, reason: true, author: true, configurationOf: true, summary: true }).shape,
});

const headKey = (sequence: number): string => `heads/${sequence}.json`;
const versionKey = (number: number): string => `versions/${number}.json`;

/**
 * Writes what is missing of a head's trail.
 * @param manifest that of `head.latest`
 */
export async function completeTrail(
  objects: ObjectStore,
  { head, text }: HeadRevision,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<void> {
  // When the record is missing, this head is the one that numbered the version: an earlier one's would have been written before the swap to this.
  const record = recordOf(head.latest, head.sequence, manifest);
  await objects.put(versionKey(record.number), Buffer.from(`${canonicalJson(record)}\n`), 'absent', signal);
  await objects.put(headKey(head.sequence), Buffer.from(text), 'absent', signal);
}

/** The record of a version whose manifest is known. */
export function recordOf(ref: VersionRef, sequence: number, manifest: Manifest): VersionRecord {
  const { created, trigger, reason, author, configurationOf, summary } = manifest;
  return { ...ref, sequence, created, trigger, reason, author, configurationOf, summary };
}

/** The record of a version, null when it is not written. */
export async function readRecord(objects: ObjectStore, number: number, signal?: AbortSignal): Promise<VersionRecord | null> {
  const found = await objects.get(versionKey(number), signal);
  if (found === null) return null;
  try {
    return recordSchema.parse(JSON.parse(Buffer.from(found.bytes).toString('utf8')));
  } catch (cause) {
    throw new HeadgateError('bad-version', 'store', `${objects.url}: ${versionKey(number)} is not a record that this release understands`, {
      cause,
    });
  }
}

/** The numbers of all recorded versions, highest first. */
export async function recordedNumbers(objects: ObjectStore, signal?: AbortSignal): Promise<number[]> {
  const numbers: number[] = [];
  for await (const key of objects.list('versions/', signal)) {
    const number = /^versions\/(\d+)\.json$/.exec(key)?.[1];
    if (number !== undefined) numbers.push(Number(number));
  }
  return numbers.sort((a, b) => b - a);
}

/** A head of the past, null when it is not written. */
export async function readPastHead(objects: ObjectStore, sequence: number, signal?: AbortSignal): Promise<Head | null> {
  const found = await objects.get(headKey(sequence), signal);
  return found === null ? null : parseHead(Buffer.from(found.bytes).toString('utf8'));
}
