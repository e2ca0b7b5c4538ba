// `headgate render` as its users run it: where it may write, and what it takes for manifests.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder, writeFiles } from '../../fixtures/temporary-folder.ts';
import { headgate, oneLineOf } from './launcher.ts';

const ROUTE = JSON.stringify({
  apiVersion: 'route.openshift.io/v1',
  kind: 'Route',
  metadata: { name: 'a', namespace: 'ns' },
  spec: { host: 'a.test', to: { kind: 'Service', name: 'a' } },
});

test('the options and an earlier output in the folder of manifests are not taken for manifests', async (t) => {
  const folder = temporaryFolder(t);
  writeFiles(folder, { 'route.json': ROUTE, 'options.yaml': 'router:\n  httpPort: 8080\n' });
  const out = join(folder, 'out');
  const argv = ['render', '--cluster', folder, '--node', 'n', '--out', out, '--options', join(folder, 'options.yaml')];
  for (let again = 0; again < 2; again++) assert.equal((await headgate(argv)).code, 0);
  assert.equal(JSON.parse(readFileSync(join(out, 'router/routes.json'), 'utf8')).length, 1);
  assert.equal(readFileSync(join(out, 'rejections.json'), 'utf8'), '[]\n');
});

test('a path that is empty, or where no folder can be made, is one line', async (t) => {
  const folder = temporaryFolder(t);
  const render = (cluster: string, out: string) => headgate(['render', '--cluster', cluster, '--node', 'n', '--out', out]);
  assert.match(oneLineOf(await render(folder, ''), 2), /--out is empty; name a folder/);
  assert.match(oneLineOf(await render('', join(folder, 'out')), 2), /--cluster is empty; name a manifest/);
  assert.match(oneLineOf(await render(folder, '/proc/hg/out'), 1), /cannot write to --out \/proc\/hg\/out: ENOENT/);
});
