// dist/sidecar.mjs as an image carries it: with the reload script beside it, and nothing else of ours.

import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { headgate, oneLineOf, type Ran, run } from './launcher.ts';

const DIST = fileURLToPath(new URL('../../../dist', import.meta.url));

/** Runs the bundle in an empty folder of its own. */
async function aloneIn(t: TestContext): Promise<(...argv: string[]) => Promise<Ran>> {
  await headgate(['--version']); // builds what is stale
  const cwd = join(temporaryFolder(t), 'image');
  mkdirSync(cwd);
  for (const name of ['sidecar.mjs', 'reload-haproxy']) copyFileSync(join(DIST, name), join(cwd, name));
  assert.notEqual(statSync(join(cwd, 'reload-haproxy')).mode & 0o111, 0);
  return (...argv) => run([process.execPath, join(cwd, 'sidecar.mjs'), ...argv], { cwd });
}

test('the sidecar is one file that needs no other', async (t) => {
  const sidecar = await aloneIn(t);
  const help = await sidecar('sidecar', '--help');
  assert.deepEqual([help.code, help.stderr], [0, '']);
  assert.match(help.stdout, /--reload-script <path>/);
  assert.match((await sidecar('--help')).stdout, /0 ok, 1 failed, 2 wrong usage/);
  assert.match(oneLineOf(await sidecar('up'), 2), /unknown command 'up'/);
  const flags = ['--node', 'n', '--stream', 'ws://127.0.0.1:1/stream', '--token-file', 'token', '--roles', 'router', '--state', 'state'];
  assert.match(oneLineOf(await sidecar('sidecar', ...flags, '--haproxy', '/nonexistent'), 1), /no HAProxy to run at "\/nonexistent"/);
});
