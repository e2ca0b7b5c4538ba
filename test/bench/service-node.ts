// A node of the bench that runs the service proxy alone: `serve` on a folder of manifests and the bundled sidecar, in a network
// of their own.

import type { ChildProcess } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { runProgram } from '../../sidecar/run-program.ts';
import type { BackEnd } from '../../sidecar/iptables/tool.ts';
import { answers, end, start, startNetwork, until, type Usage, usageOf } from './processes.ts';
import { moveEndpoint, writeServices } from './service-manifests.ts';
import { ROOT } from './subject.ts';

const FUNCTIONS = '127.0.0.1:9000';
const HEALTH = '127.0.0.1:9001';

export class ServiceNode {
  readonly backEnd: BackEnd;
  readonly #folder: string;
  readonly #inside: readonly string[];
  readonly #started: ChildProcess[];
  #sidecar: ChildProcess | null = null;
  #turn = 0;

  private constructor(backEnd: BackEnd, folder: string, inside: readonly string[], started: ChildProcess[]) {
    this.backEnd = backEnd;
    this.#folder = folder;
    this.#inside = inside;
    this.#started = started;
  }

  /**
   * A network whose node uses the back end, and functions that have published a cluster of so many services. `timed`: `commits` can be asked,
   * which costs the sidecar's programs a little.
   */
  static async start(backEnd: BackEnd, services: number, timed = false): Promise<ServiceNode> {
    const folder = await mkdtemp(join(tmpdir(), 'hg-bench-'));
    const started: ChildProcess[] = [];
    await chmod(folder, 0o711);
    const cluster = join(folder, 'cluster');
    await mkdir(cluster);
    await writeFile(join(folder, 'token'), 'bench\n');
    await writeServices(cluster, services);
    const node = new ServiceNode(backEnd, folder, await startNetwork(started), started);
    if (timed) await node.#writeTimedRestores();
    // The sidecar joins the back end that has rules.
    await node.#run(
      ['iptables-legacy-restore', '--noflush', '-w'],
      backEnd === 'legacy' ? '*filter\n-A INPUT -i lo -j ACCEPT\nCOMMIT\n' : '',
    );
    const store = ['--store', pathToFileURL(join(folder, 'store')).href, '--cluster', cluster];
    const serve = ['serve', ...store, '--listen', FUNCTIONS, '--token-file', join(folder, 'token')];
    start(started, [...node.#inside, process.execPath, join(ROOT, 'infra/cli/headgate.mjs'), ...serve]);
    await until('the functions are ready', () => answers(node.#inside, FUNCTIONS));
    return node;
  }

  /** Starts the sidecar, and waits until it has applied what was published. */
  async startSidecar(): Promise<Usage> {
    const follow = ['--stream', `ws://${FUNCTIONS}/stream`, '--node', 'n0', '--token-file', join(this.#folder, 'token')];
    const argv = ['sidecar', '--roles', 'service-proxy', ...follow, '--state', join(this.#folder, 'state'), '--listen', HEALTH];
    this.#sidecar = start(this.#started, [...this.#inside, process.execPath, join(ROOT, 'dist/sidecar.mjs'), ...argv], {
      ...this.#environment,
      PATH: `${join(this.#folder, 'bin')}:${process.env['PATH'] ?? ''}`,
    });
    await until('the sidecar is ready', () => answers(this.#inside, HEALTH));
    return this.usage();
  }

  /** Seconds of CPU time that the sidecar's commits with iptables-restore have taken so far; its looks at the tables do not count. */
  async commits(): Promise<number> {
    const times = await readFile(join(this.#folder, 'commit-times'), 'utf8').catch(() => '');
    return times
      .split(/\s+/)
      .filter((time) => time !== '')
      .reduce((sum, time) => sum + Number(time), 0);
  }

  async killSidecar(): Promise<void> {
    if (this.#sidecar !== null) await end(this.#sidecar, 'SIGKILL');
  }

  async usage(): Promise<Usage> {
    if (this.#sidecar === null) throw new Error('no sidecar was started');
    return usageOf(this.#sidecar);
  }

  /** Moves one endpoint of one service, and waits until the node has applied that. */
  async changeOneService(): Promise<void> {
    const before = await this.#appliedSequence();
    this.#turn += 1;
    await moveEndpoint(join(this.#folder, 'cluster'), this.#turn);
    await until('the change is applied', async () => (await this.#appliedSequence()) > before);
  }

  /** What the node holds, as its tool saves it. */
  async saved(): Promise<string> {
    return this.#run([`iptables-${this.backEnd}-save`]);
  }

  /** Seconds of CPU time that the bare tool takes for an input. */
  async bareRestore(input: string): Promise<number> {
    const file = join(this.#folder, 'input');
    await writeFile(file, input);
    const line = `TIMEFORMAT='%3U %3S'; time iptables-${this.backEnd}-restore --noflush -w 5 <"$0" >/dev/null`;
    const { code, stderr } = await runProgram([...this.#inside, 'bash', '-c', line, file], {
      timeoutMs: 600_000,
      environment: this.#environment,
    });
    if (code !== 0) throw new Error(`the bare load failed: ${stderr}`);
    return stderr
      .trim()
      .split(' ')
      .reduce((sum, time) => sum + Number(time), 0);
  }

  async stop(): Promise<void> {
    for (const child of this.#started.toReversed()) await end(child);
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 3 });
  }

  /** Read from disk: to ask the sidecar would cost it something. */
  async #appliedSequence(): Promise<number> {
    const record: { readonly applied: { readonly head: { readonly sequence: number } } | null } = JSON.parse(
      await readFile(join(this.#folder, 'state/roles/service-proxy.json'), 'utf8'),
    );
    return record.applied?.head.sequence ?? 0;
  }

  /** Programs that stand before the real iptables-restore in the sidecar's PATH and note what each commit takes. */
  async #writeTimedRestores(): Promise<void> {
    const bin = join(this.#folder, 'bin');
    await mkdir(bin);
    for (const tool of ['iptables', 'ip6tables']) {
      const name = `${tool}-${this.backEnd}-restore`;
      const real = (await runProgram(['bash', '-c', 'PATH=$PATH:/usr/sbin:/sbin type -p "$0"', name])).stdout.trim();
      const lines = [
        '#!/bin/bash',
        `input=$(mktemp ${this.#folder}/input.XXXXXX)`,
        'cat >"$input"',
        `if grep -qE '^(:|-[AXDI] )' "$input"; then`,
        "  TIMEFORMAT='%3U %3S'",
        `  { time ${real} "$@" <"$input" 2>&3; } 3>&2 2>>${this.#folder}/commit-times`,
        'else',
        `  ${real} "$@" <"$input"`,
        'fi',
        'status=$?',
        'rm -f "$input"',
        'exit "$status"',
      ];
      await writeFile(join(bin, name), `${lines.join('\n')}\n`, { mode: 0o755 });
    }
  }

  get #environment(): Record<string, string> {
    return { XTABLES_LOCKFILE: join(this.#folder, 'xtables.lock') };
  }

  async #run(argv: readonly string[], input = ''): Promise<string> {
    const { code, stdout, stderr } = await runProgram([...this.#inside, ...argv], {
      input,
      outputLimit: 256 * 1024 * 1024,
      timeoutMs: 300_000,
      environment: this.#environment,
    });
    if (code !== 0) throw new Error(`${argv[0]} failed: ${stderr}`);
    return stdout;
  }
}
