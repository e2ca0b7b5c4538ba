// What can be wrong around `up`: a second one, ports that are taken, no HAProxy, nobody who reads. It says so in one line, leaves what
// others run alone, and takes away what it started.

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { until } from '../../fixtures/poll.ts';
import { noHaproxy } from '../../fixtures/run-haproxy.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { assertNoStack, headgate, LAUNCHER, oneLineOf, RunningCommand, run } from './launcher.ts';

const PATIENCE_MS = 60_000;
const PORTS = 5;

/** A folder that the users of HAProxy's workers may pass. */
function stateFolder(t: TestContext): string {
  const folder = temporaryFolder(t);
  chmodSync(folder, 0o711);
  return join(folder, 'state');
}

async function listen(port: number): Promise<Server | null> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(null));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

/** The first of five ports in a row that nobody has. */
async function freePorts(): Promise<number> {
  for (;;) {
    const first = await listen(0);
    const address = first?.address();
    const base = typeof address === 'object' && address !== null ? address.port : 0;
    const others = await Promise.all(Array.from({ length: PORTS - 1 }, (_, index) => listen(Math.min(base + 1 + index, 65_535))));
    for (const server of [first, ...others]) server?.close();
    if (base + PORTS <= 65_535 && others.every((server) => server !== null)) return base;
  }
}

function processesNaming(folder: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && existsSync(`/proc/${name}/cmdline`))
    .filter((pid) => commandLine(pid).includes(folder));
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

test('a second up on the same folder is refused, and the first goes on', { skip: noHaproxy }, async (t) => {
  const state = stateFolder(t);
  const base = await freePorts();
  const first = new RunningCommand(t, [process.execPath, LAUNCHER, 'up', '--state', state, '--port-base', `${base}`]);
  await until('up says what to try', () => first.said.includes('Ctrl-C stops everything.'), PATIENCE_MS);

  const second = oneLineOf(await headgate(['up', '--state', state, '--port-base', `${await freePorts()}`]), 1);
  assert.match(second, /state is in use by another sidecar or `headgate up`; stop it, or choose another folder with --state/);
  const otherState = oneLineOf(await headgate(['up', '--state', stateFolder(t), '--port-base', `${base}`]), 1);
  assert.match(otherState, new RegExp(`127\\.0\\.0\\.1:${base} is taken by another program; choose other ports with --port-base N`));

  const answer = await run(['curl', '-s', '-H', 'Host: shop.example.test', `http://127.0.0.1:${base}/`]);
  assert.match(answer.stdout, /^web-\d at /);
  assert.ok(first.isRunning);
  assert.doesNotMatch(first.said, /"level":"(warn|error)"|public/, 'nothing to complain of');

  first.closeOutput();
  assert.equal((await first.stop()).code, 0, 'nobody reads, and it cleans up all the same');
  assertNoStack(first.said);
  assert.deepEqual(processesNaming(state), []);
});

test('any port that is taken is named before anything starts', { skip: noHaproxy }, async (t) => {
  const state = stateFolder(t);
  const base = await freePorts();
  for (const offset of [1, 3]) {
    const taken = await listen(base + offset);
    t.after(() => taken?.close());
    const line = oneLineOf(await headgate(['up', '--state', state, '--port-base', `${base}`]), 1);
    assert.match(line, new RegExp(`127\\.0\\.0\\.1:${base + offset} is taken by another program; choose other ports with --port-base N`));
    taken?.close();
  }
  assert.deepEqual(processesNaming(state), []);
});

test('what up is told and cannot use is said before anything is made', { skip: noHaproxy }, async (t) => {
  const state = stateFolder(t);
  const absent = oneLineOf(await headgate(['up', '--state', state, '--cluster', join(state, 'nope')]), 1);
  assert.match(absent, /there is no folder .*nope; give a folder of manifests with --cluster DIR/);
  assert.ok(!existsSync(state));
  const store = oneLineOf(await headgate(['up', '--state', state, '--store', 'nope']), 2);
  assert.match(store, /"nope" is not the URL of a store/);
  const file = join(state, 'options.yaml');
  assert.match(oneLineOf(await headgate(['up', '--state', file]), 1), /cannot be used as the state folder; give a folder/);
});

test('a part that cannot start ends the run', { skip: noHaproxy, timeout: PATIENCE_MS }, async (t) => {
  const state = stateFolder(t);
  mkdirSync(state);
  writeFileSync(join(state, 'token'), '');
  const line = oneLineOf(await headgate(['up', '--state', state, '--port-base', `${await freePorts()}`]), 1);
  assert.match(line, /the functions ended: the token file .* holds no token/);
  assert.deepEqual(processesNaming(state), []);
});

test('without HAProxy up says how to install it', { skip: process.getuid?.() !== 0 && 'needs root, to hide HAProxy' }, async (t) => {
  const state = stateFolder(t);
  const hide = 'for file in /usr/sbin/haproxy /usr/local/sbin/haproxy; do [ ! -e $file ] || mount --bind /dev/null $file; done; exec "$@"';
  const line = ['unshare', '--mount', 'sh', '-c', hide, 'sh', process.execPath, LAUNCHER, 'up', '--state', state];
  const said = oneLineOf(await run(line, { env: { PATH: '/usr/bin:/bin' } }), 1);
  assert.match(said, /HAProxy is not installed; as root, sh infra\/setup\.sh \(or apt-get install haproxy\) installs it/);
  assert.ok(!existsSync(state));
});
