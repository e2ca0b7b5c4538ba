// How commands behave towards who reads them: a reader that leaves, names that would move the cursor, warnings, and a user who has waited enough.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../../fixtures/poll.ts';
import { headgate, LAUNCHER, RunningCommand, run } from './launcher.ts';
import { route, writeShop } from './shop.ts';
import { Site } from './site.ts';

test('a reader that leaves early is no error', async (t) => {
  const site = new Site(t);
  await site.reconcile();
  for (const reader of ['head -1', 'true']) {
    const line = `set -o pipefail; "$0" "$1" show 1 --store "$2" | ${reader}`;
    const { code, stderr } = await run(['bash', '-c', line, process.execPath, LAUNCHER, site.store]);
    assert.deepEqual([code, stderr], [0, ''], reader);
  }
});

test('whatever is in a name, output stays lines of plain text', async (t) => {
  const site = new Site(t);
  const hostile = 'a\u001b[31mb\u202ec\nd';
  const broken = route(hostile, 'Not_A_Host');
  const { stderr } = await headgate(['reconcile', '--store', site.store, '--cluster', writeShop(site.cluster, { more: [broken] })], {
    env: { HEADGATE_AUTHOR: hostile },
  });
  assert.match(stderr, /^Route shop\/a.\[31mb.c.d left out: /m);
  await site.run(['rollback', '1', '--reason', hostile], { env: { HEADGATE_AUTHOR: hostile } });
  const outputs = [stderr, ...(await Promise.all(['versions', 'status'].map((command) => site.run([command]))))];
  outputs.push(await site.run(['show', '2']), await site.run(['diff', '1', '2']));
  for (const output of outputs) assert.doesNotMatch(output, /[^\P{Cc}\n]|\p{Cf}/u);
  assert.match(outputs[1] ?? '', /a\\u001b\[31mb\\u202ec\\u000ad/);
  assert.match(outputs[2] ?? '', /^Head: version 2, .* by a\\u001b\[31mb\\u202ec\\u000ad: a\\u001b/);
});

test('who uses the certificate that everybody has the key of is told so', async (t) => {
  const site = new Site(t);
  const argv = ['--cluster', writeShop(site.cluster)];
  const said = /^headgate: warning: the default certificate is .* set router\.defaultCertificate$/m;
  assert.match((await headgate(['reconcile', '--store', site.store, ...argv])).stderr, said);
  assert.match((await headgate(['render', '--node', 'n', '--out', join(site.folder, 'out'), ...argv])).stderr, said);
  const [certificate, key] = [join(site.folder, 'own.crt'), join(site.folder, 'own.key')];
  const subject = ['-subj', '/CN=own', '-days', '30', '-nodes', '-keyout', key, '-out', certificate];
  const made = await run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', ...subject]);
  assert.equal(made.code, 0, made.stderr);
  const pem = [certificate, key].map((file) => readFileSync(file, 'utf8')).join('');
  const options = join(site.folder, 'options.yaml');
  writeFileSync(options, JSON.stringify({ router: { defaultCertificate: pem } }));
  const own = await headgate(['render', '--node', 'n', '--out', join(site.folder, 'out'), '--options', options, ...argv]);
  assert.deepEqual([own.code, own.stderr], [0, '']);
});

test('a command that waits for its input is stopped at once', async (t) => {
  const site = new Site(t);
  const argv = ['reconcile', '--store', site.store, '--cluster', '-'];
  const waiting = new RunningCommand(t, [process.execPath, LAUNCHER, ...argv]);
  await until('it has opened the store', () => existsSync(join(site.folder, 'store', 'store.json@')));
  assert.deepEqual(await waiting.stop(), { code: 1, stdout: '', stderr: 'headgate: stopped before it was done\n' });
});
