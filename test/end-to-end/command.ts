// Commands of tests as processes: started, listened to, ended.

import { type ChildProcess, spawn } from 'node:child_process';

type Environment = Readonly<Record<string, string | undefined>>;

/** A process that runs beside the test. */
export class StartedCommand {
  readonly name: string;
  /** Resolves with its exit status, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  readonly #child: ChildProcess;
  #said = '';
  #mayEnd = false;

  constructor(name: string, argv: readonly string[], environment: Environment = process.env) {
    const [program = '', ...args] = argv;
    this.name = name;
    this.#child = spawn(program, args, { env: { ...environment }, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.on('data', (chunk) => (this.#said += String(chunk)));
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (error) => resolve(error.message));
      this.#child.once('exit', (code, signal) => resolve(code ?? signal ?? 'unknown'));
    });
  }

  /** What it has printed so far, on both outputs. */
  get said(): string {
    return this.#said;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Its end is no failure from now on. */
  mayEnd(): this {
    this.#mayEnd = true;
    return this;
  }

  /** @throws Error when it ended and was not to */
  mustRun(): void {
    if (this.hasEnded && !this.#mayEnd) throw new Error(`${this.name} ended`);
  }

  kill(signal: NodeJS.Signals): void {
    this.mayEnd().#child.kill(signal);
  }

  /** Ends it as an operator would, and waits for it. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | string> {
    this.kill(signal);
    return this.ended;
  }
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, whatever its exit status. */
export async function runToEnd(argv: readonly string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}): Promise<Ended> {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => (stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (stderr += String(chunk)));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return { code, stdout, stderr };
}
