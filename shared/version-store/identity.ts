// store.json: which store this is, and the proof that its conditional writes hold. Written once, by whoever comes first.

import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { HeadgateError } from '../error.ts';
import { canonicalJson } from '../json.ts';
import type { ObjectStore } from '../object-store/object-store.ts';

const KEY = 'store.json';

const storeSchema = z.object({
  format: z.literal(1),
  id: z.string().min(1),
  created: z.string(),
  /** What the probe found: always both, since a store that fails is refused. */
  probe: z.object({ createOnce: z.literal(true), compareAndSwap: z.literal(true) }),
});

/**
 * The id of the store, which its first user gives it.
 * @throws HeadgateError stage `store`: `unfit-store` when conditional writes do not hold, `bad-store` when store.json cannot be read
 */
export async function storeIdentity(objects: ObjectStore, now: Date, signal?: AbortSignal): Promise<string> {
  const found = await objects.get(KEY, signal);
  if (found !== null) return parseIdentity(found.bytes, objects.url);
  await probe(objects, signal);
  const id = randomUUID();
  const identity = { format: 1, id, created: now.toISOString(), probe: { createOnce: true, compareAndSwap: true } };
  const result = await objects.put(KEY, Buffer.from(`${canonicalJson(identity)}\n`), 'absent', signal);
  return result.outcome === 'written' ? id : storeIdentity(objects, now, signal);
}

function parseIdentity(bytes: Uint8Array, url: string): string {
  try {
    return storeSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8'))).id;
  } catch (cause) {
    throw new HeadgateError(
      'bad-store',
      'store',
      `${url}: store.json is not one that this release understands; upgrade, or name another store`,
      {
        cause,
      },
    );
  }
}

/** Two creates, a right and a stale swap: servers exist that accept conditions and ignore them. */
async function probe(objects: ObjectStore, signal: AbortSignal | undefined): Promise<void> {
  const key = `probe/${randomUUID()}.json`;
  const write = async (body: string, condition: 'absent' | { readonly etag: string }): Promise<string | null> => {
    const result = await objects.put(key, Buffer.from(body), condition, signal);
    return result.outcome === 'written' ? result.etag : null;
  };
  try {
    const first = await write('1', 'absent');
    if (first === null) throw unfit(objects.url, 'the first write of an object was taken for a second one');
    if ((await write('2', 'absent')) !== null) throw unfit(objects.url, 'an object could be created twice (If-None-Match is ignored)');
    if ((await write('3', { etag: first })) === null) throw unfit(objects.url, 'a swap with the right tag was refused (If-Match)');
    if ((await write('4', { etag: first })) !== null)
      throw unfit(objects.url, 'a swap with a stale tag went through (If-Match is ignored)');
  } finally {
    await objects.delete(key, signal);
  }
}

function unfit(url: string, finding: string): HeadgateError {
  return new HeadgateError(
    'unfit-store',
    'store',
    `${url} cannot hold versions: ${finding}. Use a store with atomic conditional writes on an unversioned bucket`,
  );
}
