import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openStateDirectory } from '../../sidecar/state-directory.ts';
import { temporaryFolder } from '../fixtures/stream-host.ts';

test('only its owner sees into the folder, and it is held by one at a time', async (t) => {
  const path = join(await temporaryFolder(t), 'a', 'state');
  const held = await openStateDirectory(path);
  assert.equal((await stat(path)).mode & 0o777, 0o711);
  await assert.rejects(openStateDirectory(path), { code: 'state-in-use', message: /in use by another sidecar/ });
  await held.release();
  const again = await openStateDirectory(path);
  await again.release();
});

test('a folder that was there is opened for passing, and keeps its mode otherwise', async (t) => {
  const path = await temporaryFolder(t);
  for (const [before, after] of [
    [0o700, 0o711],
    [0o1777, 0o1777],
  ] as const) {
    await chmod(path, before);
    await (await openStateDirectory(path)).release();
    assert.equal((await stat(path)).mode & 0o7777, after);
  }
  const file = join(path, 'file');
  await writeFile(file, '', { mode: 0o600 });
  await assert.rejects(openStateDirectory(file), { code: 'bad-state-directory' });
  assert.equal((await stat(file)).mode & 0o777, 0o600);
});

test('of many that open it at once, one holds it', async (t) => {
  const path = await temporaryFolder(t);
  for (let round = 0; round < 3; round += 1) {
    const opened = await Promise.allSettled(Array.from({ length: 20 }, () => openStateDirectory(path)));
    const held = opened.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    assert.equal(held.length, 1);
    for (const refused of opened) if (refused.status === 'rejected') assert.equal(refused.reason.code, 'state-in-use');
    await Promise.all(held.map((one) => one.release()));
  }
  assert.equal((await readdir(path)).length, 1, 'no lock file of an earlier holder is left');
});

test('a holder that was killed is followed; one that lives is not', async (t) => {
  const path = await temporaryFolder(t);
  const source = new URL('../../sidecar/state-directory.ts', import.meta.url).href;
  const script = `import(${JSON.stringify(source)}).then(async ({ openStateDirectory }) => {
    await openStateDirectory(${JSON.stringify(path)}); console.log('held'); setInterval(() => {}, 1e6); });`;
  const child: ChildProcess = spawn(process.execPath, ['--import', 'tsx', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  assert.ok(child.stdout);
  await once(child.stdout, 'data');
  await assert.rejects(openStateDirectory(path), { code: 'state-in-use' });
  child.kill('SIGKILL');
  await once(child, 'exit');
  await (await openStateDirectory(path)).release();
});

test('what cannot be a state folder is said in one line', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'file'), '');
  await assert.rejects(openStateDirectory(join(folder, 'file')), { code: 'bad-state-directory' });
  await mkdir(join(folder, 'x'.repeat(100)));
  await assert.rejects(openStateDirectory(join(folder, 'x'.repeat(100))), { code: 'bad-state-directory', message: /too long/ });
});
