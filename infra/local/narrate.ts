// Says what happens while a local run goes on: each version with what changed in it, and what is held.

import { setTimeout as sleep } from 'node:timers/promises';
import { diffVersions } from '../../functions/diff.ts';
import { errorMessage } from '../../shared/error.ts';
import type { Head } from '../../shared/head.ts';
import type { VersionStore } from '../../shared/version-store.ts';
import { diffLines } from '../cli/commands/diff.ts';

const LOOK_MS = 500;
/** Lines of a version; the rest is for `headgate diff`. */
const MOST_LINES = 8;

/** Follows the head until the signal is aborted; `say` takes one line. */
export async function narrate(store: VersionStore, say: (line: string) => void, signal: AbortSignal): Promise<void> {
  let known = await store.readHead();
  while (!signal.aborted) {
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
    try {
      const next = known === null ? await store.readHead() : await store.readHeadIfChanged(known.etag);
      if (next === null || next === 'unchanged') continue;
      for (const line of await linesOfMove(store, known?.head ?? null, next.head)) say(line);
      known = next;
    } catch (thrown) {
      if (!signal.aborted) say(`The store does not answer: ${errorMessage(thrown)}`);
    }
  }
}

async function linesOfMove(store: VersionStore, before: Head | null, head: Head): Promise<string[]> {
  const version = head.target.number;
  if (before?.target.number === version) {
    return before.newest.number === head.newest.number
      ? []
      : [`Version ${head.newest.number} waits: the configuration of ${head.pin?.version ?? version} is held.`];
  }
  const held = head.pin === null ? '' : `, the configuration of ${head.pin.version} held by ${head.pin.author}: ${head.pin.reason}`;
  const changes = before === null ? [] : diffLines(await diffVersions(store, before.target.number, version));
  const more = changes.length - MOST_LINES;
  return [
    `Version ${version}${held}`,
    ...changes.slice(0, MOST_LINES).map((line) => `  ${line}`),
    ...(more > 0 ? [`  and ${more} more: headgate diff ${before?.target.number ?? version} ${version}`] : []),
  ];
}
