// Runs a program of the node to its end: argument vector, standard input, what it printed. The one place where the
// sidecar starts short-lived processes; there is never a shell in between.

import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { errnoCode, HeadgateError } from '../shared/error.ts';

export interface ProgramOptions {
  /** Given on standard input, which is then closed; without it standard input is empty. */
  readonly input?: string | Uint8Array;
  /** Aborting kills the program; the call rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Milliseconds until it is killed; default 60,000. */
  readonly timeoutMs?: number;
  /** Bytes kept of each output stream, the first ones; what follows is read and dropped. Default 1 MiB. */
  readonly outputLimit?: number;
  /** Added to our own environment. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly workingDirectory?: string;
}

export interface ProgramResult {
  /** Exit status; 128 + the signal's number when a signal ended it, as a shell says it. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** True when one of the outputs was longer than the limit. */
  readonly truncated: boolean;
}

/** `runProgram`, or what stands in for it. */
export type RunProgram = (argv: readonly string[], options?: ProgramOptions) => Promise<ProgramResult>;

const DEFAULT_TIMEOUT_MS = 60_000;
const DEFAULT_OUTPUT_LIMIT = 1024 * 1024;

/**
 * Runs `argv[0]` with the other items as its arguments. Any exit status is a result, not an error.
 * @throws HeadgateError `program-missing` when it is not installed, `program-not-run` when it cannot be started, `program-timeout`
 *   when it took longer than `timeoutMs` (all stage `apply`); the signal's reason when aborted
 */
export async function runProgram(argv: readonly string[], options: ProgramOptions = {}): Promise<ProgramResult> {
  const [program, ...args] = argv;
  if (program === undefined) throw new HeadgateError('program-not-run', 'apply', 'no program was named');
  const { signal, timeoutMs = DEFAULT_TIMEOUT_MS, outputLimit = DEFAULT_OUTPUT_LIMIT } = options;
  signal?.throwIfAborted();
  const deadline = AbortSignal.timeout(timeoutMs);
  const child = spawn(program, args, {
    stdio: 'pipe',
    signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
    killSignal: 'SIGKILL',
    ...(options.workingDirectory === undefined ? {} : { cwd: options.workingDirectory }),
    ...(options.environment === undefined ? {} : { env: { ...process.env, ...options.environment } }),
  });
  const stdout = keepOutput(child.stdout, outputLimit);
  const stderr = keepOutput(child.stderr, outputLimit);
  // A program that ends without reading all of its input breaks the pipe: its exit status says what that meant.
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input);
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, by) => resolve(code ?? 128 + (by === null ? 0 : constants.signals[by])));
  });
  const code = await ended.catch((cause: unknown) => {
    signal?.throwIfAborted();
    throw startError(program, timeoutMs, deadline.aborted, cause);
  });
  return { code, stdout: stdout.text(), stderr: stderr.text(), truncated: stdout.truncated() || stderr.truncated() };
}

function startError(program: string, timeoutMs: number, timedOut: boolean, cause: unknown): HeadgateError {
  if (timedOut) {
    return new HeadgateError('program-timeout', 'apply', `${program} did not end within ${timeoutMs} ms and was killed`, { cause });
  }
  return errnoCode(cause) === 'ENOENT'
    ? new HeadgateError('program-missing', 'apply', `${program} is not installed; install it`, { cause })
    : new HeadgateError('program-not-run', 'apply', `${program} cannot be started`, { cause });
}

function keepOutput(stream: NodeJS.ReadableStream, limit: number): { text(): string; truncated(): boolean } {
  const kept: Buffer[] = [];
  let seen = 0;
  stream.on('data', (chunk: Buffer) => {
    if (seen < limit) kept.push(chunk.subarray(0, limit - seen));
    seen += chunk.length;
  });
  return { text: () => Buffer.concat(kept).toString('utf8'), truncated: () => seen > limit };
}
