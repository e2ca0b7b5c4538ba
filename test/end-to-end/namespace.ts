// Network namespaces for tests: made, linked, entered and removed. A node's namespace forwards between its peers (pods,
// clients), each of which has one link to it. Nothing outside these namespaces is touched.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type TestProtocol = 'tcp' | 'udp';

/** What a listener says of a connection: which listener answered, and the source address that it saw. */
export interface Answer {
  /** `address:port`, IPv6 in brackets. */
  readonly server: string;
  readonly client: string;
}

export interface Question {
  readonly protocol: TestProtocol;
  readonly address: string;
  readonly port: number;
  /** Source address; the kernel's choice when absent. */
  readonly from?: string;
  readonly fromPort?: number;
  /** How long no answer counts as `TIMEOUT`; 3 s when absent. */
  readonly timeoutMs?: number;
}

/** An answer, or the error's code: `ECONNREFUSED`, `TIMEOUT`, `EHOSTUNREACH` ... */
export type Reply = Answer | { readonly error: string };

/** Why namespaces cannot be made here, for a test's `skip`; false when they can. */
export async function namespacesMissing(): Promise<string | false> {
  if (process.platform !== 'linux') return 'network namespaces need Linux';
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  const probe = uniqueName('probe');
  try {
    const made = await run('ip', ['netns', 'add', probe]);
    return made.code === 0 ? false : `ip netns add: ${made.stderr.trim()}`;
  } catch {
    return 'network namespaces need the program ip (iproute2)';
  } finally {
    await run('ip', ['netns', 'del', probe]).catch(() => undefined);
  }
}

let made = 0;

function uniqueName(label: string): string {
  return `hg-${process.pid}-${++made}-${label}`;
}

/** One network namespace. Close it, also after a failure: that ends every process inside. */
export class Namespace {
  readonly name: string;
  /** Its own lock file, so that legacy iptables of two tests never wait for each other. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly #lockFile: string;
  #agent: Agent | null = null;
  #peers = 0;
  #addresses: readonly string[] = [];

  private constructor(name: string) {
    this.name = name;
    this.#lockFile = join(tmpdir(), `${name}.xtables.lock`);
    this.environment = { ...process.env, XTABLES_LOCKFILE: this.#lockFile };
  }

  /** A new namespace with its loopback up. */
  static async create(label: string): Promise<Namespace> {
    const namespace = new Namespace(uniqueName(label));
    await expectSuccess('ip', ['netns', 'add', namespace.name]);
    await namespace.ip('link', 'set', 'lo', 'up');
    return namespace;
  }

  /** Starts a program inside. */
  spawn(command: string, args: readonly string[]): ChildProcess {
    return spawn('ip', ['netns', 'exec', this.name, command, ...args], { env: { ...this.environment } });
  }

  /** Runs a program inside to its end, whatever its exit code. */
  run(command: string, args: readonly string[], input = ''): Promise<Output> {
    return run('ip', ['netns', 'exec', this.name, command, ...args], input, this.environment);
  }

  /** Runs a program inside that must succeed; its standard output. */
  async must(command: string, args: readonly string[], input = ''): Promise<string> {
    const output = await this.run(command, args, input);
    if (output.code !== 0) throw new Error(`${this.name}: ${command} ${args.join(' ')} (${output.code}): ${output.stderr}`);
    return output.stdout;
  }

  /** `ip ARGUMENTS` inside. */
  async ip(...args: string[]): Promise<void> {
    await expectSuccess('ip', ['-n', this.name, ...args]);
  }

  /** Makes this a node: it forwards, and these are its own addresses. */
  async becomeNode(...addresses: string[]): Promise<void> {
    await this.must('sh', ['-c', 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding']);
    for (const address of addresses) await this.ip('address', 'add', host(address), 'dev', 'lo', ...(isIPv6(address) ? ['nodad'] : []));
    this.#addresses = addresses;
  }

  /** Links a peer (a pod, a client) to this node, which has become one: the peer sends everything here, and these addresses are reached through the link. */
  async linkPeer(peer: Namespace, ...addresses: string[]): Promise<void> {
    const link = `peer${++this.#peers}`;
    await this.ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', peer.name);
    // A gateway of link scope is never what MASQUERADE takes as the source.
    await this.ip('address', 'add', '169.254.1.1/32', 'dev', link, 'scope', 'link');
    await this.ip('address', 'add', 'fe80::1/64', 'dev', link, 'nodad');
    await this.ip('link', 'set', link, 'up');
    await peer.ip('address', 'add', 'fe80::2/64', 'dev', 'eth0', 'nodad');
    await peer.ip('link', 'set', 'eth0', 'up');
    for (const address of addresses) {
      await peer.ip('address', 'add', host(address), 'dev', 'eth0', ...(isIPv6(address) ? ['nodad'] : []));
      const own = this.#addresses.find((candidate) => isIPv6(candidate) === isIPv6(address));
      await this.ip('route', 'add', host(address), 'dev', link, ...(own === undefined ? [] : ['src', own]));
    }
    await peer.ip('route', 'add', '169.254.1.1', 'dev', 'eth0');
    await peer.ip('route', 'add', 'default', 'via', '169.254.1.1');
    await peer.ip('route', 'add', 'default', 'via', 'fe80::1', 'dev', 'eth0');
  }

  /** Listens on `address:port` and answers every connection or datagram with who answered and whom it saw. */
  async listen(protocol: TestProtocol, address: string, port: number): Promise<void> {
    const reply = await this.#ask({ do: 'listen', protocol, address, port });
    if ('error' in reply) throw new Error(`${this.name}: listen ${protocol} ${address}:${port}: ${reply.error}`);
  }

  /** Connects from here, or sends a datagram, and takes what a listener says. */
  ask(question: Question): Promise<Reply> {
    return this.#ask({ do: 'ask', ...question });
  }

  /** Ends what runs inside and removes the namespace. */
  async close(): Promise<void> {
    await this.#agent?.close();
    const { stdout } = await run('ip', ['netns', 'pids', this.name]);
    for (const pid of stdout.split('\n').filter((line) => line !== '')) killQuietly(Number(pid));
    await run('ip', ['netns', 'del', this.name]);
    await rm(this.#lockFile, { force: true });
  }

  async #ask(order: object): Promise<Reply> {
    this.#agent ??= new Agent(this.spawn(process.execPath, [fileURLToPath(new URL('namespace-agent.mjs', import.meta.url))]));
    return this.#agent.ask(order);
  }
}

/** A process inside a namespace that listens and connects as it is told: one line of JSON for each order and each reply. */
class Agent {
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, (reply: Reply) => void>();
  #orders = 0;

  constructor(child: ChildProcess) {
    this.#process = child;
    if (child.stdout === null) throw new Error('an agent without standard output');
    createInterface({ input: child.stdout }).on('line', (line) => {
      const { order, reply }: { order: number; reply: Reply } = JSON.parse(line);
      this.#waiting.get(order)?.(reply);
      this.#waiting.delete(order);
    });
    child.on('exit', () => {
      for (const settle of this.#waiting.values()) settle({ error: 'AGENT-ENDED' });
    });
  }

  ask(order: object): Promise<Reply> {
    const number = ++this.#orders;
    return new Promise((resolve) => {
      this.#waiting.set(number, resolve);
      this.#process.stdin?.write(`${JSON.stringify({ order: number, ...order })}\n`);
    });
  }

  async close(): Promise<void> {
    if (this.#process.exitCode !== null) return;
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await ended;
  }
}

function isIPv6(address: string): boolean {
  return address.includes(':');
}

function host(address: string): string {
  return `${address}/${isIPv6(address) ? 128 : 32}`;
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

async function expectSuccess(command: string, args: readonly string[]): Promise<void> {
  const output = await run(command, args);
  if (output.code !== 0) throw new Error(`${command} ${args.join(' ')}: ${output.stderr}`);
}

async function run(
  command: string,
  args: readonly string[],
  input = '',
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Output> {
  const child = spawn(command, args, { env: { ...environment } });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => (stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (stderr += String(chunk)));
  // A program that refuses its input closes it early; its exit code says so.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  const code = await new Promise<number>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) => resolve(status ?? -1));
  });
  return { code, stdout, stderr };
}
