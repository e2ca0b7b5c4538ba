// HAProxy as a process: whether it answers, starting it so that it outlives the sidecar, and stopping it. Found again by
// its sockets, and, when those are not there yet or no more, by its command line, which names them.

import { spawn } from 'node:child_process';
import { copyFile, open, readdir, readFile, stat, truncate } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Digest } from '../../shared/digest.ts';
import { errnoCode, HeadgateError } from '../../shared/error.ts';
import { LOCAL_CONFIG } from './generations.ts';
import { type RouterPaths, routerPaths } from './paths.ts';
import { type MasterInfo, parseInfo, parseProcesses, type WorkerInfo } from './readback.ts';
import { ask } from './runtime-socket.ts';

/** What serves now. */
export interface Running {
  readonly worker: WorkerInfo;
  readonly master: MasterInfo;
}

const START_MS = 60_000;
const STOP_MS = 10_000;
/** A master that starts itself anew for a reload takes no connection for a moment. */
const MASTER_AWAY_MS = 2_000;
const LOOK_MS = 20;
/** Bytes of HAProxy's output that are kept, and once more in `haproxy.log.1`. */
const LONGEST_LOG = 1024 * 1024;

/** The worker and master that answer; null when one of them does not: without its master a worker cannot be reloaded. Throws as below. */
export async function findRunning(paths: RouterPaths): Promise<Running | null> {
  const worker = await findWorker(paths);
  if (worker === null) return null;
  for (const end = performance.now() + MASTER_AWAY_MS; ; await sleep(LOOK_MS)) {
    const master = await findMaster(paths);
    if (master !== null) return { worker, master };
    if (performance.now() > end) return null;
  }
}

/** @throws HeadgateError `haproxy-silent` when one is there and does not answer in time */
export async function findWorker(paths: RouterPaths): Promise<WorkerInfo | null> {
  return ask(paths.adminSocket, 'show info').then(parseInfo, nobody);
}

/** @throws HeadgateError `haproxy-silent` as above */
export async function findMaster(paths: RouterPaths): Promise<MasterInfo | null> {
  return ask(paths.masterSocket, 'show proc').then(parseProcesses, nobody);
}

/** A HAProxy that is busy is not one that is gone: starting another one would not help it. */
function nobody(thrown: unknown): null {
  if (thrown instanceof HeadgateError && thrown.code === 'haproxy-silent') throw thrown;
  return null;
}

/**
 * Starts HAProxy with what `current` names and waits until it serves. Processes of an earlier one that nobody can talk to any more are told
 * to finish their connections once the new one serves.
 * @throws HeadgateError `start-failed` (stage `apply`) with all that HAProxy printed as the message
 */
export async function startHaproxy(program: string, paths: RouterPaths, generation: Digest): Promise<Running> {
  const strays = await findProcesses(paths);
  const offset = await logSize(paths);
  const ended = await spawnDetached(program, paths);
  for (const end = performance.now() + START_MS; performance.now() < end; await sleep(LOOK_MS)) {
    const running = ended.code === null ? await findRunning(paths) : null;
    if (running?.worker.description === generation && running.master.pid === ended.pid) {
      for (const stray of strays) signalProcess(stray, 'SIGUSR1');
      return running;
    }
    if (ended.code !== null) throw startFailed(await logSince(paths, offset));
  }
  signalProcess(ended.pid, 'SIGKILL');
  throw startFailed(`HAProxy did not serve within ${START_MS / 1000} s`);
}

interface Started {
  readonly pid: number;
  /** Null while it runs. */
  code: number | null;
}

async function spawnDetached(program: string, paths: RouterPaths): Promise<Started> {
  const log = await open(paths.log, 'a', 0o600);
  try {
    const child = spawn(program, processArguments(paths), { cwd: '/', detached: true, stdio: ['ignore', log.fd, log.fd] });
    const { pid } = child;
    if (pid === undefined) {
      const cause = await new Promise<Error>((resolve) => child.once('error', resolve));
      throw new HeadgateError('start-failed', 'apply', `${program} cannot be started: ${cause.message}`, { cause });
    }
    const started: Started = { pid, code: null };
    child.once('exit', (code) => {
      started.code = code ?? 1;
    });
    child.unref();
    return started;
  } finally {
    await log.close();
  }
}

function processArguments(paths: RouterPaths): string[] {
  return ['-W', '-S', masterAddress(paths), '-C', paths.current, '-f', LOCAL_CONFIG, '-f', 'config'];
}

function masterAddress(paths: RouterPaths): string {
  return `${paths.masterSocket},mode,600`;
}

/**
 * Stops the HAProxy of a state folder, connections cut; nothing happens when none runs. The sidecar must not run, or it starts another.
 * @throws HeadgateError `stop-failed` (stage `serve`) when processes stay
 */
export async function stopHaproxy(state: string): Promise<void> {
  const paths = routerPaths(state);
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    for (const pid of await findProcesses(paths)) signalProcess(pid, signal);
    for (const end = performance.now() + STOP_MS; performance.now() < end; await sleep(LOOK_MS)) {
      if ((await findProcesses(paths)).length === 0) return;
    }
  }
  throw new HeadgateError('stop-failed', 'serve', `HAProxy of ${state} does not end; stop it by hand`);
}

/** Whether any HAProxy of the state folder is left here. One that ended and that nobody has waited for counts as gone. */
export async function hasProcesses(paths: RouterPaths): Promise<boolean> {
  return (await findProcesses(paths)).length > 0;
}

/**
 * Masters and workers that were started on this state folder, whether they answer or not. Where there is no /proc, those that answer; else
 * their word is not taken for it: a process of another PID namespace would name a number that means another process here.
 */
async function findProcesses(paths: RouterPaths): Promise<number[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  if (pids.length === 0) {
    const answering = await Promise.all([findMaster(paths), findWorker(paths)]);
    return answering.flatMap((one) => (one === null ? [] : [one.pid]));
  }
  const ours = await Promise.all(
    pids.map(async (pid) => {
      const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
      return words.includes('-W') && words.includes(masterAddress(paths)) ? [Number(pid)] : [];
    }),
  );
  return ours.flat();
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (thrown) {
    if (errnoCode(thrown) !== 'ESRCH') throw thrown;
  }
}

/** Bytes that HAProxy has printed so far. */
export async function logSize(paths: RouterPaths): Promise<number> {
  return stat(paths.log).then(
    ({ size }) => size,
    () => 0,
  );
}

/** What HAProxy printed since. */
export async function logSince(paths: RouterPaths, offset: number): Promise<string> {
  const bytes = await readFile(paths.log).catch(() => Buffer.alloc(0));
  return bytes.subarray(Math.min(offset, bytes.length)).toString('utf8');
}

/** Keeps the log small. HAProxy holds the file open and appends, so it is emptied in place. */
export async function boundLog(paths: RouterPaths): Promise<void> {
  if ((await logSize(paths)) < LONGEST_LOG) return;
  await copyFile(paths.log, `${paths.log}.1`);
  await truncate(paths.log, 0);
}

function startFailed(output: string): HeadgateError {
  return new HeadgateError('start-failed', 'apply', output);
}
