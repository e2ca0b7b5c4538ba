// Waiting for the parts of a local run.

import { setTimeout as sleep } from 'node:timers/promises';
import type { VersionStore } from '../../shared/version-store.ts';

export const LOOK_AGAIN_MS = 100;
/** Longest wait for the node to run the head's version: one that HAProxy refuses never runs. */
const SERVED_MS = 15_000;

/** Resolves once a port answers 200, or who should answer is over. */
export async function untilAnswers(port: number, path: string, over: AbortSignal): Promise<void> {
  while (!over.aborted && (await answer(port, path)) === null) await sleep(LOOK_AGAIN_MS);
}

/** Resolves once the node's router runs the version that the head names, or it takes too long; true when it does. */
export async function untilServed(store: VersionStore, sidecarPort: number, over: AbortSignal): Promise<boolean> {
  const end = Date.now() + SERVED_MS;
  while (!over.aborted && Date.now() < end) {
    const [revision, metrics] = await Promise.all([store.readHead(), answer(sidecarPort, '/metrics')]);
    const version = /^headgate_sidecar_version\{role="router"\} (\d+)$/m.exec(metrics ?? '')?.[1];
    if (revision !== null && version === `${revision.head.target.number}`) return true;
    await sleep(LOOK_AGAIN_MS);
  }
  return false;
}

/** The body of a 200; null for anything else. */
async function answer(port: number, path: string): Promise<string | null> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(2_000) });
    return response.status === 200 ? await response.text() : null;
  } catch {
    return null;
  }
}
