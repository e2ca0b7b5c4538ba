// Whether a sidecar's state folder holds what it should and nothing that kills have left.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Generations that are kept, and those that HAProxy started with. */
const MOST_GENERATIONS = 10;

/**
 * What is left over, in words; empty when the folder is tidy. Blobs of the content before the one that runs stay until the next offer. Fails
 * when a blob is missing.
 */
export async function leftOvers(state: string): Promise<string[]> {
  const list = async (folder: string, expected: RegExp): Promise<string[]> =>
    (await readdir(join(state, folder))).filter((name) => !expected.test(name)).map((name) => join(folder, name));
  const named = await namedBlobs(state);
  const blobs = await readdir(join(state, 'blobs'));
  for (const digest of named) assert.ok(blobs.includes(digest), `blob ${digest} is named and not there`);
  const generations = (await readdir(join(state, 'router', 'generations'))).length;
  return [
    ...(await list('.', EXPECTED)),
    ...(await list('blobs', /^[0-9a-f]{64}$/)),
    ...(await list('roles', /^(?:router|service-proxy)\.json$/)),
    ...(await list('router', /^(?:current|generations)$/)),
    ...(await list('router/generations', /^[0-9a-f]{64}$/)),
    ...(blobs.length > 2 * named.size ? [`${blobs.length} blobs, of which ${named.size} are named`] : []),
    ...(generations > MOST_GENERATIONS ? [`${generations} generations`] : []),
  ];
}

const EXPECTED = /^(?:blobs|haproxy\.log|journal|lock-\d+\.sock|master\.sock|roles|router|run|seen\.json)$/;

async function namedBlobs(state: string): Promise<Set<string>> {
  const named = new Set<string>();
  for (const role of await readdir(join(state, 'roles'))) {
    const { wanted, applied } = JSON.parse(await readFile(join(state, 'roles', role), 'utf8'));
    for (const kept of [wanted, applied]) {
      for (const { digest } of Object.values<{ digest: string }>(kept?.files ?? {})) named.add(digest);
    }
  }
  return named;
}
