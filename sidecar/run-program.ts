// Runs a program of the node to its end: argument vector, standard input, what it printed. The one place where the
// sidecar starts short-lived processes; there is never a shell in between.

import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { Readable, type Writable } from 'node:stream';
import { errnoCode, HeadgateError } from '../shared/error.ts';

export interface ProgramOptions {
  /** Given on standard input, which is then closed; several pieces one after the other as they are read. Without it standard input is empty. */
  readonly input?: string | Uint8Array | Iterable<string>;
  /** Takes each line of standard output, without its end; nothing of it is kept then. */
  readonly onLine?: (line: string) => void;
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
  const { onLine } = options;
  const stdout = onLine === undefined ? keepOutput(child.stdout, outputLimit) : passLines(child.stdout, onLine);
  const stderr = keepOutput(child.stderr, outputLimit);
  // A program that ends without reading all of its input breaks the pipe: its exit status says what that meant.
  child.stdin.on('error', () => undefined);
  giveInput(child.stdin, options.input);
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

function giveInput(stdin: Writable, input: ProgramOptions['input']): void {
  if (input === undefined || typeof input === 'string' || input instanceof Uint8Array) stdin.end(input);
  else Readable.from(input).pipe(stdin);
}

/** Each line is a string of its own, so that whoever keeps a part of one does not keep all that came with it. */
function passLines(stream: NodeJS.ReadableStream, onLine: (line: string) => void): Output {
  let rest = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let from = 0;
    for (let to = bytes.indexOf(LINE_FEED); to !== -1; to = bytes.indexOf(LINE_FEED, from)) {
      onLine(bytes.toString('utf8', from, to));
      from = to + 1;
    }
    rest = Buffer.from(bytes.subarray(from));
  });
  stream.on('end', () => {
    if (rest.length > 0) onLine(rest.toString('utf8'));
  });
  return { text: () => '', truncated: () => false };
}

const LINE_FEED = 10;

interface Output {
  text(): string;
  truncated(): boolean;
}

function keepOutput(stream: NodeJS.ReadableStream, limit: number): Output {
  const kept: Buffer[] = [];
  let seen = 0;
  stream.on('data', (chunk: Buffer) => {
    if (seen < limit) kept.push(chunk.subarray(0, limit - seen));
    seen += chunk.length;
  });
  return { text: () => Buffer.concat(kept).toString('utf8'), truncated: () => seen > limit };
}
