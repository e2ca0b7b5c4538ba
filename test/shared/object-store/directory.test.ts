import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { HeadgateError } from '../../../shared/error.ts';
import { openDirectoryStore } from '../../../shared/object-store/directory.ts';
import { keysOf, objectStoreContract } from './contract.ts';

const folders: string[] = [];
after(async () => {
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `hg-store-${process.pid}-`));
  folders.push(folder);
  return folder;
}

const failsWith =
  (code: string, ...words: readonly string[]) =>
  (thrown: unknown) => {
    assert.ok(thrown instanceof HeadgateError);
    assert.equal(thrown.code, code);
    assert.equal(thrown.stage, 'store');
    for (const word of words) assert.ok(thrown.message.includes(word), `${thrown.message} names ${word}`);
    return true;
  };

objectStoreContract('directory store', {
  open: async () => openDirectoryStore(await temporaryFolder()),
  reopen: (store) => openDirectoryStore(fileURLToPath(store.url)),
});

interface Writer {
  readonly process: ChildProcess;
  /** The counter's values that it wrote and was told of. */
  readonly written: number[];
  readonly ended: Promise<unknown>;
}

function spawnWriter(folder: string, times: number): Writer {
  const script = fileURLToPath(new URL('./counting-writer.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', script, folder, 'counter', String(times)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const written: number[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line !== 'started') written.push(Number(line));
  });
  return { process: child, written, ended: once(child, 'close') };
}

test('eight processes raise a counter a hundred times each: no update is lost', { timeout: 120_000 }, async () => {
  const folder = await temporaryFolder();
  const writers = Array.from({ length: 8 }, () => spawnWriter(folder, 100));
  await Promise.all(writers.map(({ ended }) => ended));
  const store = await openDirectoryStore(folder);
  assert.equal(Buffer.from((await store.get('counter'))?.bytes ?? []).toString(), '800');
  const all = writers.flatMap(({ written }) => written).sort((a, b) => a - b);
  assert.deepEqual(
    all,
    Array.from({ length: 800 }, (_, index) => index + 1),
  );
});

test('kill -9 of writers loses nothing that was acknowledged and leaves a store that works', { timeout: 120_000 }, async () => {
  const folder = await temporaryFolder();
  for (let round = 0; round < 4; round += 1) {
    const writers = Array.from({ length: 2 }, () => spawnWriter(folder, 1_000_000));
    while (writers.some(({ written }) => written.length < 3 + round * 7)) await once(writers[0]?.process.stdout ?? process, 'data');
    for (const writer of writers) writer.process.kill('SIGKILL');
    await Promise.all(writers.map(({ ended }) => ended));
    const store = await openDirectoryStore(folder);
    const value = Number(Buffer.from((await store.get('counter'))?.bytes ?? []).toString());
    const acknowledged = Math.max(...writers.flatMap(({ written }) => written));
    assert.ok(value >= acknowledged, `${value} stands, ${acknowledged} was acknowledged`);
    assert.deepEqual(await keysOf(store, ''), ['counter']);
  }
});

test('drafts of a crash are removed when they are old, and never listed', async () => {
  const folder = await temporaryFolder();
  const store = await openDirectoryStore(folder);
  await writeFile(join(folder, '@tmp', 'old'), 'x');
  await writeFile(join(folder, '@tmp', 'young'), 'x');
  const twoHoursAgo = Date.now() / 1000 - 7200;
  await utimes(join(folder, '@tmp', 'old'), twoHoursAgo, twoHoursAgo);
  assert.deepEqual(await keysOf(store, ''), []);
  await openDirectoryStore(folder);
  assert.deepEqual(await readdir(join(folder, '@tmp')), ['young']);
});

test('only the owner may read: folders 0700, files 0600', async () => {
  const folder = join(await temporaryFolder(), 'new');
  const store = await openDirectoryStore(folder);
  await store.put('fleet/a.json', Buffer.from('x'));
  const mode = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8);
  assert.equal(await mode(folder), '700');
  assert.equal(await mode(join(folder, 'fleet')), '700');
  assert.equal(await mode(join(folder, 'fleet', 'a.json@')), '700');
  assert.equal(await mode(join(folder, 'fleet', 'a.json@', '000000000001')), '600');
});

test('a store that vanished is an error, not an empty store', async () => {
  const folder = await temporaryFolder();
  const store = await openDirectoryStore(folder);
  await store.put('head.json', Buffer.from('x'));
  await rm(folder, { recursive: true });
  await assert.rejects(store.get('head.json'), failsWith('store-missing', folder, 'mounted'));
  await assert.rejects(store.put('head.json', Buffer.from('y')), failsWith('store-missing', folder));
  await assert.rejects(openDirectoryStore(folder, { create: false }), failsWith('store-missing', folder));
});

test('a file in the way, and a folder that may not be written, are named', async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'file'), 'x');
  await assert.rejects(openDirectoryStore(join(folder, 'file')), failsWith('store-failed', join(folder, 'file')));
  await assert.rejects(openDirectoryStore('/proc/headgate'), failsWith('store-missing', '/proc/headgate'));
});

test('a full disk is named, with what to do', {
  skip: process.getuid?.() === 0 ? false : 'needs root for a small file system',
}, async () => {
  const script = `
    import { openDirectoryStore } from ${JSON.stringify(new URL('../../../shared/object-store/directory.ts', import.meta.url).href)};
    const store = await openDirectoryStore(process.argv[1]);
    await store.put('big', Buffer.alloc(1_000_000)).catch((error) => console.log(error.code, error.message));
    await store.put('small', Buffer.alloc(10)).then(({ outcome }) => console.log(outcome));
  `;
  const folder = await temporaryFolder();
  const command = `mount -t tmpfs -o size=256k tmpfs "$0" && exec "$1" --import tsx --input-type=module -e "$2" "$0"`;
  const child = spawn('unshare', ['-m', 'sh', '-c', command, folder, process.execPath, script], { stdio: ['ignore', 'pipe', 'pipe'] });
  const output: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(chunk));
  await once(child, 'close');
  const lines = Buffer.concat(output).toString().trim().split('\n');
  assert.match(lines[0] ?? '', /^store-full cannot write .*big@: no space left: free some/);
  assert.equal(lines[1], 'written');
});
