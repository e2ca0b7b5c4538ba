// A reload: runs the reload script, then believes nothing but a new worker that says it loaded the generation.

import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Digest } from '../../shared/digest.ts';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { Files } from '../../shared/files.ts';
import { runProgram } from '../run-program.ts';
import type { RouterPaths } from './paths.ts';
import { findMaster, findRunning, findWorker, hasProcesses, logSince, logSize, type Running } from './process.ts';
import { alertWords } from './words.ts';

const CONFIRM_MS = 60_000;
/** A script that stops HAProxy and starts it has so long in between. */
const AWAY_MS = 2_000;
const LOOK_MS = 20;

/** The script of ours: beside this file, or beside the bundle that holds it. */
export function defaultReloadScript(): string {
  const places = ['./reload-haproxy', '../reload-haproxy'].map((place) => fileURLToPath(new URL(place, import.meta.url)));
  return places.find((place) => existsSync(place)) ?? 'reload-haproxy';
}

export interface Reload {
  readonly script: string;
  readonly paths: RouterPaths;
  /** What serves before. */
  readonly before: Running;
  readonly generation: Digest;
  /** The generation's composed files, to tell which of HAProxy's words are secret. */
  readonly files: Files;
}

/**
 * Reloads and waits for the new worker.
 * @throws HeadgateError `reload-script-failed`, `reload-failed` or `reload-not-seen` (stage `apply`); the old worker then serves on
 */
export async function reloadHaproxy(reload: Reload): Promise<Running> {
  const { paths } = reload;
  const offset = await logSize(paths);
  await runScript(reload);
  let lastSeen = performance.now();
  for (const end = lastSeen + CONFIRM_MS; performance.now() < end; await sleep(LOOK_MS)) {
    const worker = await findWorker(paths);
    if (worker !== null && worker.pid !== reload.before.worker.pid) return confirmed(reload);
    const master = await findMaster(paths);
    if (master !== null && master.failedReloads > reload.before.master.failedReloads) {
      const words = alertWords(await logSince(paths, offset), reload.files);
      throw new HeadgateError('reload-failed', 'apply', `HAProxy refused to reload: ${words}`);
    }
    if ((worker ?? master) !== null || (await hasProcesses(paths))) lastSeen = performance.now();
    else if (performance.now() - lastSeen > AWAY_MS) throw notSeen('HAProxy ended');
  }
  throw notSeen(`no new worker within ${CONFIRM_MS / 1000} s`);
}

async function runScript({ script, paths, before, generation }: Reload): Promise<void> {
  const environment = {
    HAPROXY_MASTER_PID: String(before.master.pid),
    HAPROXY_MASTER_SOCKET: paths.masterSocket,
    HAPROXY_ADMIN_SOCKET: paths.adminSocket,
    HEADGATE_STATE: paths.state,
    HEADGATE_GENERATION: generation,
  };
  const failed = (words: string, cause?: unknown): HeadgateError =>
    new HeadgateError('reload-script-failed', 'apply', `the reload script ${script} failed: ${words}`, { cause });
  const { code, stderr } = await runProgram([script], { environment, timeoutMs: CONFIRM_MS }).catch((cause: unknown) => {
    throw failed(errorMessage(cause), cause);
  });
  if (code !== 0) throw failed(errorMessage(stderr) || `exit ${code}`);
}

async function confirmed({ paths, generation }: Reload): Promise<Running> {
  const running = await findRunning(paths);
  if (running === null) throw notSeen('HAProxy stopped answering');
  if (running.worker.description !== generation) throw notSeen('the new worker loaded another configuration');
  return running;
}

function notSeen(what: string): HeadgateError {
  return new HeadgateError('reload-not-seen', 'apply', `the reload could not be confirmed: ${what}`);
}
