// What can be wrong around the programs that stay, `serve` and `sidecar`: ports, tokens, tools, folders. Before they run it is one line and
// an end; while they run it is one line of the log, and they go on.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { stopHaproxy } from '../../../sidecar/haproxy/process.ts';
import { until } from '../../fixtures/poll.ts';
import { temporaryFolder, writeFiles } from '../../fixtures/temporary-folder.ts';
import { assertNoStack, headgate, LAUNCHER, linesOf, oneLineOf, RunningCommand, run } from './launcher.ts';
import { writeShop } from './shop.ts';

const HOST = '127.0.0.1:9000';
const HEALTH = '127.0.0.1:9001';

/** A folder with what `serve` and `sidecar` need, and their flags. */
class Place {
  readonly folder: string;
  readonly state: string;
  readonly token: string;

  constructor(t: TestContext) {
    this.folder = temporaryFolder(t);
    this.state = join(this.folder, 'state');
    this.token = join(this.folder, 'token');
    const key = Buffer.alloc(32, 1).toString('base64');
    writeFiles(this.folder, { token: 'the-token\n', key, 'options.yaml': 'router: { bindAddress: 127.0.0.1 }\n', 'cluster/.keep': '' });
    writeShop(join(this.folder, 'cluster'));
  }

  serve(listen: string, token = this.token, cluster = 'cluster'): string[] {
    const store = pathToFileURL(join(this.folder, 'store')).href;
    const files = ['--sealing-key', join(this.folder, 'key'), '--options', join(this.folder, 'options.yaml')];
    return ['serve', '--store', store, '--cluster', join(this.folder, cluster), '--listen', listen, '--token-file', token, ...files];
  }

  /** Of the router alone. */
  sidecar(...more: string[]): string[] {
    const stream = ['--stream', `ws://${HOST}/stream`, '--node', 'local', '--token-file', this.token];
    return ['sidecar', ...stream, '--roles', 'router', '--state', this.state, '--sealing-key', join(this.folder, 'key'), ...more];
  }
}

/** Network of a test's own, in which roles and ports are free. */
class Network {
  readonly #holder: RunningCommand;

  private constructor(holder: RunningCommand) {
    this.#holder = holder;
  }

  static async make(t: TestContext): Promise<Network> {
    const holder = new RunningCommand(t, ['unshare', '--net', 'sh', '-c', 'ip link set lo up && echo up && exec sleep 600']);
    await until('the network', () => holder.said === 'up\n');
    return new Network(holder);
  }

  /** The words that run a command of Headgate in it. */
  inside(argv: readonly string[]): string[] {
    return this.enter([process.execPath, LAUNCHER, ...argv]);
  }

  enter(argv: readonly string[]): string[] {
    return ['nsenter', `--net=/proc/${this.#holder.pid}/ns/net`, '--', ...argv];
  }
}

const NEEDS_ROOT = { skip: process.getuid?.() !== 0 && 'needs root, for a network of its own' };

test('serve does not start where its port, its token or its cluster is missing', async (t) => {
  const place = new Place(t);
  const taken = createServer();
  const port = await new Promise<number>((resolve) => {
    taken.listen(0, '127.0.0.1', () => {
      const address = taken.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
  t.after(() => taken.close());
  const busy = oneLineOf(await headgate(place.serve(`127.0.0.1:${port}`)), 1);
  assert.match(busy, new RegExp(`127\\.0\\.0\\.1:${port} is taken by another program; choose another with --listen$`));
  assert.match(oneLineOf(await headgate(place.serve('192.0.2.1:8080')), 1), /cannot listen on 192\.0\.2\.1:8080; choose another address/);
  assert.match(
    oneLineOf(await headgate(place.serve('127.0.0.1:0', join(place.folder, 'nope'))), 1),
    /the token file .*nope cannot be read/,
  );
  writeFileSync(place.token, '\n');
  assert.match(oneLineOf(await headgate(place.serve('127.0.0.1:0')), 1), /the token file .*token holds no token; write one to it/);
  assert.match(oneLineOf(await headgate(place.serve('127.0.0.1:0', place.token, 'nope')), 1), /there is no folder .*nope; give a folder/);
});

test('serve warns once of a certificate that everybody has the key of', async (t) => {
  const place = new Place(t);
  writeFiles(place.folder, { 'options.yaml': '' });
  const host = new RunningCommand(t, [process.execPath, LAUNCHER, ...place.serve('127.0.0.1:0')]);
  const warnings = (): string[] => linesOf(host.said).filter((line) => line.includes('whose private key is public'));
  await until('the warning', () => warnings().length > 0);
  writeShop(join(place.folder, 'cluster'), { host: 'new.example.test' });
  const url = /Serving on (\S+)/.exec(host.said)?.[1] ?? '';
  await until('the second version', async () => (await (await fetch(`${url}/metrics`)).text()).includes('headgate_head_version 2'));
  assert.equal(warnings().length, 1);
  assert.match(warnings()[0] ?? '', /"level":"warn"/);
  assert.equal((await host.stop()).code, 0);
});

test('a sidecar does not start without what it needs on its node', async (t) => {
  const place = new Place(t);
  const missing = oneLineOf(await headgate(place.sidecar('--haproxy', '/nonexistent')), 1);
  assert.match(missing, /no HAProxy to run at "\/nonexistent"; install it \(apt-get install haproxy\) or pass --haproxy PATH/);
  assert.match(oneLineOf(await headgate(place.sidecar('--haproxy', process.execPath)), 1), /does not say that it is HAProxy/);
  const script = oneLineOf(await headgate(place.sidecar('--reload-script', join(place.folder, 'nope'))), 1);
  assert.match(script, /the reload script .*nope cannot be run; name a program with --reload-script/);
});

test('a state folder that cannot be one is said', NEEDS_ROOT, async (t) => {
  const place = new Place(t);
  const network = await Network.make(t);
  for (const [state, says] of [
    [place.token, /token cannot be used as the state folder; give a folder that can be written with --state/],
    [join(place.folder, 'x'.repeat(90)), /is too long a path for the sockets below it \(at most \d+ bytes\); choose a shorter --state/],
  ] as const) {
    assert.match(oneLineOf(await run(network.inside(place.sidecar('--state', state))), 1), says);
  }
});

test('a token that the host refuses is one line of the log, until it is the right one', NEEDS_ROOT, async (t) => {
  const place = new Place(t);
  const network = await Network.make(t);
  const host = new RunningCommand(t, network.inside(place.serve(HOST)));
  await until('the functions', () => host.said.includes('Serving on'));
  const wrong = join(place.folder, 'wrong');
  writeFileSync(wrong, 'another-token\n');
  const sidecar = new RunningCommand(t, network.inside(place.sidecar('--token-file', wrong, '--listen', HEALTH)));
  t.after(() => stopHaproxy(place.state));
  const refusals = (): number => host.said.split('without a valid token').length - 1;

  await until('three tries', () => refusals() >= 3);
  const [line = '', ...others] = linesOf(sidecar.said);
  assert.match(line, /"level":"warn".*status 401: check the token file","msg":"not connected; trying again"/);
  assert.deepEqual(others, []);

  const second = oneLineOf(await run(network.inside(place.sidecar())), 1);
  assert.match(second, /another sidecar serves the role router in this network namespace; stop it, or leave the role out of --roles/);
  const elsewhere = oneLineOf(await run((await Network.make(t)).inside(place.sidecar())), 1);
  assert.match(elsewhere, /state is in use by another sidecar .*; stop it, or choose another folder with --state/);
  const health = oneLineOf(await run(network.inside(place.serve(HEALTH))), 1);
  assert.match(health, /127\.0\.0\.1:9001 is taken by another program/);

  writeFileSync(wrong, '');
  await until('the empty token file is noticed', () => sidecar.said.includes('wrong holds no token; write'));
  writeFileSync(wrong, 'the-token\n');
  await until(
    'HAProxy serves',
    async () => (await run(network.enter(['curl', '--silent', `http://${HEALTH}/readyz`]))).stdout === 'ready\n',
  );
  assert.ok(sidecar.isRunning && host.isRunning);
  assertNoStack(sidecar.said + host.said);
  assert.deepEqual([(await sidecar.stop()).code, (await host.stop()).code], [0, 0]);
});
