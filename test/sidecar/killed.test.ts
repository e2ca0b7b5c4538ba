// A sidecar process that is killed again and again in the middle of its fetches: what is on disk is always whole, nothing that
// was fetched is fetched twice, and the newest version is reached in the end.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { LastKnownGood } from '../../sidecar/last-known-good.ts';
import { MemoryStore } from '../fixtures/memory-store.ts';
import { until } from '../fixtures/poll.ts';
import { startHost, temporaryFolder } from '../fixtures/stream-host.ts';

const FILES = 120;
const SCRIPT = fileURLToPath(new URL('../fixtures/sidecar-process.ts', import.meta.url));

const version = (text: string): Record<string, string> =>
  Object.fromEntries(Array.from({ length: FILES }, (_, index) => [`router/maps/m/${index}`, `${text} ${index}`]));

test('killed at any point of a fetch, a sidecar goes on where it was', async (t) => {
  const folder = await temporaryFolder(t);
  const [state, tokenFile, output] = [join(folder, 'state'), join(folder, 'token'), join(folder, 'output')];
  const memory = new MemoryStore();
  const host = await startHost(t, memory.store, tokenFile);
  const start = () => {
    const child = spawn(process.execPath, ['--import', 'tsx', SCRIPT, host.address, state, tokenFile, output], { stdio: 'inherit' });
    t.after(() => child.kill('SIGKILL'));
    return child;
  };
  const blobsOnDisk = async (): Promise<number> => (await readdir(join(state, 'blobs')).catch(() => [])).length;
  const running = async (): Promise<unknown> => JSON.parse(await readFile(output, 'utf8').catch(() => 'null'));

  memory.publish(version('one'));
  host.source.notice();
  for (const blobs of [1, 30, 60, 90]) {
    const child = start();
    await until(`${blobs} blobs`, async () => (await blobsOnDisk()) >= blobs);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const kept = await LastKnownGood.open(state);
    assert.equal(kept.seen?.sequence, 1);
    const { wanted } = kept.record('router');
    for (const file of Object.values(wanted?.files ?? {})) await kept.readBlob(file);
    if (wanted === null) assert.equal(await running(), null, 'nothing runs that is not whole');
  }
  const child = start();
  await until('version 1 runs', async () => JSON.stringify(await running()) === JSON.stringify({ version: 1, files: FILES }));
  memory.publish({ ...version('one'), 'router/maps/m/0': 'two' });
  host.source.notice();
  await until('version 2 runs', async () => JSON.stringify(await running()) === JSON.stringify({ version: 2, files: FILES }));
  child.kill('SIGKILL');
  await once(child, 'exit');

  await host.close();
  await rm(output);
  start();
  await until('version 2 runs from disk', async () => JSON.stringify(await running()) === JSON.stringify({ version: 2, files: FILES }));
});
