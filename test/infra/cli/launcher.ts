// The launcher as its users run it: a process, its exit code, and what it printed.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

export const LAUNCHER = fileURLToPath(new URL('../../../infra/cli/headgate.mjs', import.meta.url));

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  /** Added to the environment, in which no HEADGATE_ variable is set. */
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
}

/** Runs a command of Headgate to its end. */
export function headgate(argv: readonly string[], options: RunOptions = {}): Promise<Ran> {
  return run([process.execPath, LAUNCHER, ...argv], options);
}

/** Runs any program to its end. */
export async function run(argv: readonly string[], { cwd, env, input }: RunOptions = {}): Promise<Ran> {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, { cwd, env: environment(env), stdio: 'pipe' });
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  return ended(child);
}

/** A command that runs until it is stopped, at the latest with its test. Its standard input stays open and empty. */
export class RunningCommand {
  readonly #child: ChildProcess;
  readonly #ended: Promise<Ran>;
  #said = '';

  constructor(t: TestContext, argv: readonly string[], { cwd, env }: RunOptions = {}) {
    const [program = '', ...args] = argv;
    this.#child = spawn(program, args, { cwd, env: environment(env), stdio: 'pipe' });
    this.#child.stdout?.on('data', (chunk) => (this.#said += String(chunk)));
    this.#child.stderr?.on('data', (chunk) => (this.#said += String(chunk)));
    this.#ended = ended(this.#child);
    t.after(() => this.stop());
  }

  /** On both outputs, so far. */
  get said(): string {
    return this.#said;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** From now on nobody reads what it prints. */
  closeOutput(): void {
    this.#child.stdout?.destroy();
  }

  async stop(): Promise<Ran> {
    this.#child.kill('SIGTERM');
    return this.#ended;
  }
}

/** Lines of a text, the last one's end not counted. */
export function linesOf(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n');
}

/** A refusal as it must be: the exit code, nothing on standard output, and one line, no stack, on standard error, which is returned. */
export function oneLineOf(ran: Ran, code: 1 | 2): string {
  assert.equal(ran.code, code, ran.stderr);
  assert.equal(ran.stdout, '');
  const lines = linesOf(ran.stderr);
  assert.equal(lines.length, 1, ran.stderr);
  const [line = ''] = lines;
  assert.match(line, /^headgate: \S/);
  assertNoStack(ran.stderr);
  return line;
}

export function assertNoStack(text: string): void {
  assert.doesNotMatch(text, /^ {4}at |\bnode:internal|file:\/\/.*\.m?js:\d/m);
}

function environment(added: RunOptions['env'] = {}): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('HEADGATE_') && name !== 'NODE_OPTIONS');
  return { ...Object.fromEntries(own), ...added };
}

async function ended(child: ChildProcess): Promise<Ran> {
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk) => (stdout += String(chunk)));
  child.stderr?.on('data', (chunk) => (stderr += String(chunk)));
  const [code] = await once(child, 'close');
  return { code: typeof code === 'number' ? code : null, stdout, stderr };
}
