// The whole system as its users run it: the commands, each a process, on a folder of manifests and a store in a folder, with HAProxy and
// iptables of a node in a network namespace of its own. Nobody listens outside that namespace: traffic goes in through a door.

import { mkdirSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { status as readStatus, type Status } from '../../functions/operate.ts';
import { openObjectStore } from '../../shared/object-store/open-store.ts';
import { openVersionStore } from '../../shared/version-store.ts';
import type { Result } from '../../shared/protocol.ts';
import { type Role, ROLES } from '../../shared/role.ts';
import { type RouterPaths, routerPaths } from '../../sidecar/haproxy/paths.ts';
import { findRunning, type Running } from '../../sidecar/haproxy/process.ts';
import { until } from '../fixtures/poll.ts';
import { runToEnd, StartedCommand } from './command.ts';
import { askThrough, type Asked, type Reply } from './door.ts';
import { clusterManifests, type Manifest, NODE, NODE_ADDRESS, POD_NETWORK } from './manifests.ts';
import { Namespace, type Output } from './namespace.ts';
import { leftOvers } from './state-folder.ts';

export const HTTP_PORT = 8000;
export const HTTPS_PORT = 8443;
const STATS_PORT = 8936;
export const FUNCTIONS_PORT = 9000;
export const SIDECAR_PORT = 9100;

const LAUNCHER = fileURLToPath(new URL('../../infra/cli/headgate.mjs', import.meta.url));
/** Two cores, shared with other tests. */
export const PATIENCE_MS = 60_000;

/** How a sidecar is started. */
export interface SidecarStart {
  readonly haproxy?: string;
  readonly reloadScript?: string;
  /** A folder whose programs are found first. */
  readonly programs?: string;
  /** Default: both. */
  readonly roles?: string;
  /** Default: the node's. */
  readonly state?: string;
  readonly node?: string;
  /** Default: where the functions listen. */
  readonly stream?: string;
  readonly flags?: readonly string[];
}

/** Runs a test with a system of its own; everything is gone afterwards, and a failure prints what the commands said. */
export async function withSystem(work: (system: WholeSystem) => Promise<void>): Promise<void> {
  const system = await WholeSystem.create();
  try {
    await work(system);
  } catch (error) {
    process.stderr.write(`${await system.said()}\n`);
    throw error;
  } finally {
    await system.close();
  }
}

export class WholeSystem {
  readonly folder: string;
  readonly store: string;
  /** The sidecar's state folder. */
  readonly state: string;
  readonly paths: RouterPaths;
  readonly #namespace: Namespace;
  readonly #commands: StartedCommand[] = [];

  private constructor(folder: string, namespace: Namespace) {
    this.folder = folder;
    this.store = `file://${join(folder, 'store')}`;
    this.state = join(folder, 'node');
    this.paths = routerPaths(this.state);
    this.#namespace = namespace;
  }

  /** A node with its addresses, and files for the commands; nothing is started but the pods. */
  static async create(): Promise<WholeSystem> {
    const folder = await mkdtemp(join(tmpdir(), 'hg-'));
    const system = new WholeSystem(folder, await Namespace.create('whole'));
    try {
      await system.#prepare();
      return system;
    } catch (error) {
      await system.close();
      throw error;
    }
  }

  async #prepare(): Promise<void> {
    // HAProxy's workers are not root and pass through.
    await chmod(this.folder, 0o711);
    mkdirSync(join(this.folder, 'cluster'));
    await writeFile(this.file('token'), 'a-node-token\n');
    await writeFile(this.file('sealing-key'), `${Buffer.alloc(32, 7).toString('base64')}\n`);
    await this.options([]);
    await this.#namespace.ip('address', 'add', `${NODE_ADDRESS}/32`, 'dev', 'lo');
    await this.#namespace.ip('route', 'add', 'local', POD_NETWORK, 'dev', 'lo');
    await this.#namespace.ip('route', 'add', 'default', 'dev', 'lo', 'src', NODE_ADDRESS);
    const inside = fileURLToPath(new URL('node-inside.mjs', import.meta.url));
    const pods = this.#start('pods', [process.execPath, inside, this.file('door')]);
    await this.until('pods listen', () => pods.said.includes('ready'));
  }

  file(name: string): string {
    return join(this.folder, name);
  }

  /** Writes the options, for functions that are started afterwards. `lines` are added below `router`. */
  async options(lines: readonly string[]): Promise<void> {
    const router = ['bindAddress: 127.0.0.1', `httpPort: ${HTTP_PORT}`, `httpsPort: ${HTTPS_PORT}`, `statsPort: ${STATS_PORT}`, ...lines];
    await writeFile(this.file('options.yaml'), `router:\n${router.map((line) => `  ${line}\n`).join('')}`);
  }

  /** The cluster becomes these objects and the node, in one step. */
  async cluster(...objects: readonly (Manifest | readonly Manifest[])[]): Promise<void> {
    const items = [...clusterManifests, ...objects.flat()];
    await writeFile(this.file('next.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    await rename(this.file('next.json'), this.file('cluster/cluster.json'));
  }

  /** Starts the functions, at this address inside the namespace. */
  async functions(host = '127.0.0.1'): Promise<StartedCommand> {
    const files = ['--token-file', this.file('token'), '--sealing-key', this.file('sealing-key'), '--options', this.file('options.yaml')];
    const listen = ['--listen', `${host}:${FUNCTIONS_PORT}`, '--cluster', this.file('cluster'), '--store', this.store];
    const functions = this.#start('serve', [process.execPath, LAUNCHER, 'serve', ...listen, ...files]);
    await this.until('functions serve', () => functions.said.includes('Serving on'));
    return functions;
  }

  /** Starts the sidecar; what becomes of it is for the caller to see. */
  sidecar(start: SidecarStart = {}): StartedCommand {
    const { haproxy, reloadScript, programs, roles, state = this.state, node = NODE, flags = [] } = start;
    const stream = ['--stream', start.stream ?? `ws://127.0.0.1:${FUNCTIONS_PORT}/stream`, '--node', node];
    const files = ['--state', state, '--token-file', this.file('token'), '--sealing-key', this.file('sealing-key')];
    const argv = [
      ...stream,
      ...files,
      ...(state === this.state ? ['--listen', `127.0.0.1:${SIDECAR_PORT}`] : []),
      ...(haproxy === undefined ? [] : ['--haproxy', haproxy]),
      ...(reloadScript === undefined ? [] : ['--reload-script', reloadScript]),
      ...(roles === undefined ? [] : ['--roles', roles]),
      ...flags,
    ];
    const path = process.env['PATH'] ?? '';
    return this.#start(
      'sidecar',
      [process.execPath, LAUNCHER, 'sidecar', ...argv],
      programs === undefined ? path : `${programs}${delimiter}${path}`,
    );
  }

  /** Starts a program inside the namespace. */
  start(name: string, argv: readonly string[]): StartedCommand {
    return this.#start(name, argv);
  }

  /** `headgate sidecar --cleanup` inside the namespace; what it said, and its exit code. */
  cleanUp(): Promise<Output> {
    return this.#namespace.run(process.execPath, [LAUNCHER, 'sidecar', '--cleanup']);
  }

  #start(name: string, argv: readonly string[], path = process.env['PATH'] ?? ''): StartedCommand {
    const environment = { ...this.#namespace.environment, HEADGATE_LOG: 'info', PATH: path };
    const command = new StartedCommand(name, ['ip', 'netns', 'exec', this.#namespace.name, ...argv], environment);
    this.#commands.push(command);
    return command;
  }

  /** Runs `headgate ARGUMENTS --store ...` to its end, which must be 0; its output. */
  async headgate(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await runToEnd([process.execPath, LAUNCHER, ...args, '--store', this.store]);
    if (code !== 0) throw new Error(`headgate ${args.join(' ')} (${code}): ${stderr}`);
    return stdout;
  }

  /** Waits for a picture of head and fleet, and gives it as `headgate status --json` prints it. */
  async untilStatus(what: string, holds: (status: Status) => boolean): Promise<Status> {
    const store = await openVersionStore(await openObjectStore(this.store, { create: false }));
    await this.until(what, async () => holds(await readStatus(store)));
    const printed: Status = JSON.parse(await this.headgate('status', '--json'));
    if (!holds(printed)) throw new Error(`${what}: status --json prints ${JSON.stringify(printed)}`);
    return printed;
  }

  /** One request from the node: through HAProxy to a host, unless an address is named. */
  ask(asked: Asked): Promise<Reply> {
    return askThrough(this.file('door'), { address: '127.0.0.1', port: asked.tls === true ? HTTPS_PORT : HTTP_PORT, ...asked });
  }

  /** The pod that answers for a host, or behind a cluster IP; else the status, or the error. */
  async answers(hostOrAddress: string): Promise<string> {
    const isAddress = /^[\d.]+$/.test(hostOrAddress);
    const reply = await this.ask({ host: hostOrAddress, ...(isAddress ? { address: hostOrAddress, port: 80 } : {}) });
    return 'error' in reply ? reply.error : (reply.pod ?? String(reply.status));
  }

  async untilAnswers(hostOrAddress: string, pod: string): Promise<void> {
    await this.until(`${pod} answers for ${hostOrAddress}`, async () => (await this.answers(hostOrAddress)) === pod);
  }

  /** Waits with patience, and fails at once when a command ended that was not to. */
  until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    const look = (): boolean | Promise<boolean> => {
      for (const command of this.#commands) command.mustRun();
      return condition();
    };
    return until(what, look, PATIENCE_MS);
  }

  async ready(): Promise<boolean> {
    return (await this.sidecarStatus('/readyz')) === 200;
  }

  /** The status of the sidecar's own server for a path; 0: it does not answer. */
  async sidecarStatus(path: string): Promise<number> {
    const reply = await this.ask({ host: 'node', port: SIDECAR_PORT, path });
    return 'error' in reply ? 0 : reply.status;
  }

  /** Waits until the sidecar's state folder holds nothing but what it should. */
  async untilTidy(): Promise<void> {
    let left: string[] = [];
    await until('the state folder is tidy', async () => (left = await leftOvers(this.state)).length === 0).catch((error: unknown) => {
      throw new Error(`left over in the state folder: ${left.join(', ')}`, { cause: error });
    });
  }

  /** HAProxy's master and worker; fails when none runs. */
  async haproxy(): Promise<Running> {
    const running = await findRunning(this.paths);
    if (running === null) throw new Error('HAProxy does not run');
    return running;
  }

  /** A program inside the namespace. */
  run(command: string, ...args: readonly string[]): Promise<string> {
    return this.#namespace.must(command, args);
  }

  /** All that the commands and HAProxy have printed. */
  async said(): Promise<string> {
    const haproxy = await readFile(this.paths.log, 'utf8').catch(() => '');
    const parts = this.#commands.map(({ name, said }) => `--- ${name}\n${said}`);
    return [...parts, `--- haproxy\n${haproxy}`].join('\n');
  }

  async close(): Promise<void> {
    for (const command of this.#commands) command.kill('SIGKILL');
    await Promise.all(this.#commands.map(({ ended }) => ended));
    await this.#namespace.close();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** What the node has said last of a role. */
export function reported({ nodes }: Status, role: Role): Result | undefined {
  return nodes.find(({ node }) => node === NODE)?.roles[role];
}

/** True once the node has said of every role that it runs the head's target. */
export function isCurrent(status: Status): boolean {
  const { head } = status;
  return ROLES.every((role) => {
    const result = reported(status, role);
    return result?.outcome === 'applied' && result.sequence === head?.sequence && result.version === head.target.number;
  });
}
