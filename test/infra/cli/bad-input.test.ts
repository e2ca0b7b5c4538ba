// Input that cannot be used: files that do not parse, options and keys that are wrong, stores that are not there or are broken. Each is one
// line that says what to do, and leaves what was there as it was.

import assert from 'node:assert/strict';
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { temporaryFolder, writeFiles } from '../../fixtures/temporary-folder.ts';
import { headgate, LAUNCHER, oneLineOf, type Ran, run } from './launcher.ts';
import { writeShop } from './shop.ts';

/** A store with one version, beside files of the test's own. */
async function publishedSite(t: TestContext): Promise<{ readonly folder: string; readonly cluster: string; readonly store: string }> {
  const folder = temporaryFolder(t);
  const cluster = join(folder, 'cluster');
  mkdirSync(cluster);
  const store = pathToFileURL(join(folder, 'store')).href;
  const { code, stderr } = await headgate(['reconcile', '--store', store, '--cluster', writeShop(cluster)]);
  assert.equal(code, 0, stderr);
  return { folder, cluster, store };
}

/** How many versions the store's list names. */
async function versionsIn(store: string): Promise<number> {
  const listed: unknown = JSON.parse((await headgate(['versions', '--json', '--store', store])).stdout);
  return Array.isArray(listed) ? listed.length : 0;
}

test('manifests that do not parse publish nothing, and file and line are named', async (t) => {
  const { folder, cluster, store } = await publishedSite(t);
  const reconcile = (): Promise<Ran> => headgate(['reconcile', '--store', store, '--cluster', cluster]);
  writeShop(cluster, { host: 'new.example.test' });
  writeFiles(cluster, { 'broken.yaml': 'kind: Service\nmetadata: [a,\nb\n' });
  assert.match(oneLineOf(await reconcile(), 1), /broken\.yaml:\d+: /);
  writeFiles(cluster, { 'broken.yaml': 'kind: Service\napiVersion: v1\n---\njust text\n' });
  assert.match(oneLineOf(await reconcile(), 1), /broken\.yaml:4: /);
  const out = join(folder, 'out');
  const render = ['render', '--cluster', cluster, '--node', 'local', '--out', out];
  assert.match(oneLineOf(await headgate(render), 1), /broken\.yaml:4: /);
  assert.ok(!existsSync(out));
  const piped = await headgate(['render', '--cluster', '-', '--node', 'local', '--out', out], { input: '{"kind": "List", "items": [' });
  assert.match(oneLineOf(piped, 1), /stdin:1: /);
  assert.equal(await versionsIn(store), 1);
  rmSync(join(cluster, 'broken.yaml'));
  assert.equal((await reconcile()).stdout, 'version 2 sequence 2 changed\n');
});

test('manifests that are not there are no empty cluster', async (t) => {
  const { folder, store } = await publishedSite(t);
  const absent = join(folder, 'absent');
  const ran = await headgate(['reconcile', '--store', store, '--cluster', absent]);
  assert.match(oneLineOf(ran, 1), /absent: no such file or folder; name a manifest, a folder of manifests, or - for standard input/);
  assert.equal(await versionsIn(store), 1);
});

test('an option that is unknown, or has a bad value, is named with what was expected', async (t) => {
  const { folder, cluster, store } = await publishedSite(t);
  const file = join(folder, 'options.yaml');
  const cases: readonly (readonly [text: string, says: RegExp])[] = [
    ['router: { httpPorts: 80 }', /options\.yaml: router\.httpPorts: unknown key/],
    ['router: { httpPort: eighty }', /options\.yaml: router\.httpPort: expected a whole number, found text/],
    ['router: { allowedDomains: example.test }', /options\.yaml: router\.allowedDomains: expected a list/],
    ['router: { defaultCertificate: nope.pem }', /options\.yaml: router\.defaultCertificate: .*nope\.pem cannot be read: no such file/],
    ['iptables: [1]', /options\.yaml: iptables: expected/],
    ['router:\n  - [', /options\.yaml:\d+: /],
  ];
  for (const [text, says] of cases) {
    writeFileSync(file, text);
    assert.match(oneLineOf(await headgate(['reconcile', '--store', store, '--cluster', cluster, '--options', file]), 1), says, text);
  }
  assert.equal(await versionsIn(store), 1);
});

test('a sealing key that is missing or none is said, and what makes one', async (t) => {
  const { folder, cluster, store } = await publishedSite(t);
  writeFiles(folder, { 'short.key': 'c2VjcmV0\n' });
  const token = join(folder, 'token');
  writeFileSync(token, 'token\n');
  const commands = [
    ['reconcile', '--store', store, '--cluster', cluster],
    ['serve', '--store', store, '--cluster', cluster, '--listen', '127.0.0.1:0', '--token-file', token],
    ['sidecar', '--node', 'n', '--stream', 'ws://127.0.0.1:1/stream', '--state', join(folder, 'state'), '--token-file', token],
  ];
  for (const argv of commands) {
    const absent = oneLineOf(await headgate([...argv, '--sealing-key', join(folder, 'no.key')]), 2);
    assert.match(absent, /the sealing key .*no\.key is not there; `openssl rand -base64 32 > .*no\.key` makes one/);
    const short = oneLineOf(await headgate([...argv, '--sealing-key', join(folder, 'short.key')]), 2);
    assert.match(short, /short\.key holds no sealing key: expected 32 bytes in base64/);
    assert.doesNotMatch(short, /c2VjcmV0/);
  }
  assert.ok(!existsSync(join(folder, 'state')));
});

test('a folder that is no store is left as it is', async (t) => {
  const folder = temporaryFolder(t);
  const commands = [['versions'], ['status'], ['show', '1'], ['diff', '1', '2'], ['rollback', '1', '--reason', 'x'], ['resume']];
  for (const argv of commands) {
    const absent = await headgate([...argv, '--store', pathToFileURL(join(folder, 'absent')).href]);
    assert.match(oneLineOf(absent, 1), /cannot open .*absent: the folder is not there: is it mounted, and is --store right\?/);
    const empty = await headgate([...argv, '--store', pathToFileURL(folder).href]);
    assert.match(oneLineOf(empty, 1), /is no store; is --store right\?/);
  }
  assert.deepEqual(readdirSync(folder), []);
  writeFileSync(join(folder, 'file'), '');
  const file = await headgate(['versions', '--store', pathToFileURL(join(folder, 'file')).href]);
  assert.match(oneLineOf(file, 1), /a file stands where a folder is expected/);
});

test('versions and files that do not exist are named with those that do', async (t) => {
  const { store } = await publishedSite(t);
  const ask = async (...argv: string[]): Promise<string> => oneLineOf(await headgate([...argv, '--store', store]), 2);
  for (const argv of [
    ['show', '7'],
    ['diff', '1', '7'],
    ['rollback', '7', '--reason', 'x'],
  ]) {
    assert.match(await ask(...argv), /there is no version 7 in file:.*: only version 1 exists$/);
  }
  assert.match(await ask('show', '1', 'router/nope'), /version 1 has no file "router\/nope"; `headgate show 1` lists them/);
  assert.match(await ask('show', '1', 'router/certificates/default.pem'), /never shown/);
});

test('a head that is broken moves nothing, and comes back with its file', async (t) => {
  const { folder, cluster, store } = await publishedSite(t);
  const revisions = join(folder, 'store', 'head.json@');
  const broken = join(revisions, String(readdirSync(revisions).length + 1).padStart(12, '0'));
  for (const text of ['{"format": 1, "sequ', '{}', '']) {
    writeFileSync(broken, text);
    for (const argv of [['versions'], ['status'], ['rollback', '1', '--reason', 'x'], ['resume'], ['reconcile', '--cluster', cluster]]) {
      const line = oneLineOf(await headgate([...argv, '--store', store]), 1);
      assert.match(line, /file:.*: head\.json is not a head that this release understands; restore it/, argv[0]);
    }
    assert.equal(readFileSync(broken, 'utf8'), text);
  }
  rmSync(broken);
  assert.equal(await versionsIn(store), 1);
});

test('a store whose identity is broken is refused', async (t) => {
  const { folder, store } = await publishedSite(t);
  writeFileSync(join(folder, 'store', 'store.json@', '000000000001'), 'x');
  assert.match(oneLineOf(await headgate(['status', '--store', store]), 1), /store\.json is not one that this release understands/);
});

const NOBODY = 65_534;
const AS_NOBODY = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];

async function nobodyMissing(): Promise<string | false> {
  if (process.getuid?.() !== 0) return 'needs root, to be somebody else';
  const { code } = await run([...AS_NOBODY, 'test', '-r', LAUNCHER]);
  return code === 0 ? false : 'the checkout is in a folder that others may not enter';
}

test('a store that may not be written is said, and stays', { skip: await nobodyMissing() }, async (t) => {
  const { folder, cluster, store } = await publishedSite(t);
  chmodSync(folder, 0o755);
  const asNobody = (...argv: string[]): Promise<Ran> => run([...AS_NOBODY, process.execPath, LAUNCHER, ...argv, '--store', store]);
  for (const argv of [['reconcile', '--cluster', cluster], ['status'], ['rollback', '1', '--reason', 'x']]) {
    assert.match(oneLineOf(await asNobody(...argv), 1), /permission denied: give the user that runs Headgate read and write access/);
  }
  writeShop(cluster, { host: 'new.example.test' });
  chownSync(join(folder, 'store', '@tmp'), NOBODY, NOBODY);
  chmodSync(join(folder, 'store'), 0o755);
  assert.match(oneLineOf(await asNobody('reconcile', '--cluster', cluster), 1), /permission denied/);
  assert.equal(await versionsIn(store), 1);
});

test('render replaces what it wrote, and nothing else', async (t) => {
  const { folder, cluster } = await publishedSite(t);
  const out = join(folder, 'out');
  const render = (): Promise<Ran> => headgate(['render', '--cluster', cluster, '--node', 'local', '--out', out]);
  writeFiles(out, { 'router/precious': 'mine', 'notes.txt': 'mine' });
  assert.match(
    oneLineOf(await render(), 2),
    /--out .*out holds a router or iptables folder that render did not write; choose an empty folder/,
  );
  assert.equal(readFileSync(join(out, 'router/precious'), 'utf8'), 'mine');
  rmSync(join(out, 'router'), { recursive: true });
  assert.equal((await render()).code, 0);
  assert.equal((await render()).code, 0);
  assert.equal(readFileSync(join(out, 'notes.txt'), 'utf8'), 'mine');
  rmSync(out, { recursive: true });
  symlinkSync(join(folder, 'cluster', 'shop.json'), out);
  assert.match(oneLineOf(await render(), 1), /cannot write to --out /);
});
