// The commands that operate on a store, from the first reconcile to the end of a rollback, as people and as scripts read them.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { headgate, linesOf, oneLineOf } from './launcher.ts';
import { route, type Shop, writeShop } from './shop.ts';
import { Site } from './site.ts';

const pin = z
  .strictObject({ version: z.number(), roles: z.array(z.string()), freeze: z.boolean(), author: z.string(), reason: z.string() })
  .nullable();
const rejection = z.strictObject({
  kind: z.string(),
  namespace: z.string(),
  name: z.string(),
  scope: z.enum(['object', 'setting']),
  field: z.string(),
  reason: z.string(),
  message: z.string(),
});
const reconciled = z.strictObject({
  version: z.number(),
  sequence: z.number(),
  changed: z.boolean(),
  newest: z.number(),
  pin,
  rejections: z.array(rejection),
});
const record = z.object({
  number: z.number(),
  sequence: z.number(),
  created: z.iso.datetime(),
  trigger: z.string(),
  reason: z.string(),
  author: z.string(),
  configurationOf: z.number().nullable(),
  summary: z.strictObject({ routes: z.number(), services: z.number(), servers: z.number(), rejections: z.number() }),
});
const listed = z.array(record.extend({ marks: z.array(z.enum(['target', 'newest', 'pinned'])) }));
const shown = record.extend({
  files: z.record(z.string(), z.object({ digest: z.string().length(64), size: z.number(), generation: z.number() })),
});
const reference = z.object({ number: z.number() });
const head = z.object({
  sequence: z.number(),
  author: z.string(),
  reason: z.string(),
  time: z.iso.datetime(),
  target: reference,
  latest: reference,
  newest: reference,
  pin,
});
const objectChange = z.object({ name: z.string(), change: z.string(), fields: z.array(z.object({ field: z.string() })) });
const difference = z.strictObject({
  from: z.number(),
  to: z.number(),
  options: z.array(z.unknown()),
  routes: z.array(objectChange),
  services: z.array(objectChange),
  endpoints: z.array(
    z.object({ service: z.string(), added: z.array(z.string()), removed: z.array(z.string()), changed: z.array(z.string()) }),
  ),
  nodes: z.array(objectChange),
  certificates: z.array(z.unknown()),
  rejections: z.object({ added: z.array(rejection), removed: z.array(rejection) }),
  files: z.array(z.object({ path: z.string(), change: z.string() })),
});
const status = z.strictObject({ store: z.string(), head: head.nullable(), nodes: z.array(z.unknown()) });

function reconcileJson(site: Site, shop?: Shop): Promise<z.infer<typeof reconciled>> {
  return site.json(reconciled, 'reconcile', '--cluster', writeShop(site.cluster, shop));
}

test('a rollback from the first version to its end, as scripts see it', async (t) => {
  const site = new Site(t);
  assert.deepEqual(await reconcileJson(site), { version: 1, sequence: 1, changed: true, newest: 1, pin: null, rejections: [] });
  assert.deepEqual((await reconcileJson(site)).changed, false);
  const moved = await reconcileJson(site, { host: 'new.example.test', more: [route('broken', 'Not_A_Host')] });
  assert.deepEqual([moved.version, moved.rejections.map(({ name, reason }) => [name, reason])], [2, [['broken', 'InvalidHost']]]);

  const { files } = await site.json(shown, 'show', '2');
  assert.ok(files['router/config/00-base.cfg'] !== undefined && files['rejections/'] === undefined);
  const map = Object.keys(files).find((path) => path.startsWith('router/maps/http/')) ?? '';
  assert.match(await site.run(['show', '2', map]), /^new\.example\.test[?/] /);
  const file = await site.json(z.strictObject({ version: z.number(), path: z.string(), content: z.string() }), 'show', '2', map);
  assert.deepEqual([file.version, file.path, file.content], [2, map, await site.run(['show', '2', map])]);

  const diff = await site.json(difference, 'diff', '1', '2');
  assert.deepEqual(
    diff.routes.map(({ name, change, fields }) => [name, change, fields.map(({ field }) => field)]),
    [['shop/web', 'changed', ['displayHost', 'host']]],
  );
  assert.deepEqual([diff.endpoints, diff.rejections.added.length, diff.rejections.removed], [[], 1, []]);

  const back = await site.json(head, 'rollback', '1', '--reason', 'shop answers 500');
  assert.deepEqual([back.target.number, back.newest.number, back.reason], [3, 2, 'shop answers 500']);
  assert.deepEqual(back.pin, { version: 1, roles: ['router'], freeze: false, author: back.author, reason: 'shop answers 500' });

  const held = await reconcileJson(site, { host: 'new.example.test', pods: ['10.180.0.7', '10.180.0.8'] });
  assert.deepEqual([held.version, held.newest, held.pin?.version, held.changed], [4, 5, 1, true]);
  const change = await site.json(difference, 'diff', '3', '4');
  assert.deepEqual(
    change.endpoints.map(({ added, removed }) => [added, removed]),
    [[['10.180.0.7:8080/TCP', '10.180.0.8:8080/TCP'], ['10.180.0.1:8080/TCP']]],
  );
  assert.deepEqual(change.routes, []);
  const versions = await site.json(listed, 'versions');
  assert.deepEqual(
    versions.map(({ number, configurationOf, marks }) => [number, configurationOf, marks]),
    [
      [5, null, ['newest']],
      [4, 1, ['target']],
      [3, 1, []],
      [2, null, []],
      [1, null, ['pinned']],
    ],
  );
  assert.equal((await site.json(listed, 'versions', '--limit', '2')).length, 2);

  const end = await site.json(z.strictObject({ resumed: z.boolean(), head }), 'resume', '--reason', 'fixed');
  assert.deepEqual([end.resumed, end.head.pin, end.head.target.number, end.head.reason], [true, null, 5, 'fixed']);
  const now = await site.json(status, 'status');
  assert.deepEqual([now.store, now.head?.target.number, now.nodes], [site.store, 5, []]);
});

test('the same, as people read it', async (t) => {
  const site = new Site(t);
  assert.equal(await site.reconcile(), 'version 1 sequence 1 changed\n');
  assert.equal(await site.reconcile(), 'version 1 sequence 1 unchanged\n');
  await site.reconcile({ host: 'new.example.test' });
  assert.match(
    await site.run(['diff', '1', '2']),
    /^route shop\/web changed\n(?: {4}.*\n)* {4}host: "shop\.example\.test" -> "new\.example\.test"\n/,
  );
  assert.equal(await site.run(['diff', '2', '2']), 'Versions 2 and 2 hold the same.\n');
  assert.match(
    await site.run(['rollback', 'v1', '--reason', 'test']),
    /^Sequence 3 runs version 3: the configuration of 1 .*`headgate resume`/,
  );
  assert.match(await site.reconcile({ host: 'new.example.test', pods: ['10.180.0.9'] }), /^version 4 sequence 4 changed/);
  const [heading = '', ...rows] = linesOf(await site.run(['versions']));
  assert.match(heading, /^VERSION +SEQUENCE +CREATED +TRIGGER +AUTHOR/);
  assert.deepEqual(
    rows.map((row) => /^(\d).* (own|of \d)( .*)?$/.exec(row)?.slice(1, 3)),
    [
      ['4', 'of 1'],
      ['3', 'of 1'],
      ['2', 'own'],
      ['1', 'own'],
    ],
  );
  assert.match(await site.run(['status']), /^Head: version 4,.*\nHeld: the configuration of version 1 \(router\).*\nWaiting: version 2\n/);
  assert.match(await site.run(['resume']), /^Sequence 5 runs version 5: the cluster's own configuration\.\n$/);
  assert.match(await site.run(['resume']), /^Nothing was held/);
  assert.match(await site.run(['show', '4']), /^Version 4, .*\nConfiguration of version 1, put back: 1 routes, 1 services, 1 servers/);
});

test('a frozen version keeps its endpoints', async (t) => {
  const site = new Site(t);
  await site.reconcile();
  const frozen = await site.json(head, 'rollback', '1', '--freeze', '--roles', 'router,service-proxy', '--reason', 'stop everything');
  assert.deepEqual([frozen.target.number, frozen.pin?.roles, frozen.pin?.freeze], [1, ['router', 'service-proxy'], true]);
  const later = await reconcileJson(site, { pods: ['10.180.0.9'] });
  assert.deepEqual([later.version, later.newest], [1, 2]);
});

test('variables stand in for the flags', async (t) => {
  const site = new Site(t);
  await site.reconcile();
  const seen = await headgate(['versions'], { env: { HEADGATE_STORE: site.store } });
  assert.match(seen.stdout, /^1 /m);
  const cluster = writeShop(site.cluster);
  const options = ['reconcile', '--store', site.store, '--cluster', cluster];
  const missing = await headgate(options, { env: { HEADGATE_OPTIONS: join(site.folder, 'nope.yaml') } });
  assert.match(oneLineOf(missing, 1), /nope\.yaml: the options cannot be read: no such file/);
  assert.equal((await headgate(options, { env: { HEADGATE_OPTIONS: '' } })).code, 0, 'an empty variable is none');
  const serve = ['serve', '--store', site.store, '--cluster', cluster, '--listen', '127.0.0.1:0'];
  const token = await headgate(serve, { env: { HEADGATE_TOKEN_FILE: join(site.folder, 'no-token') } });
  assert.equal(token.code, 1);
  assert.match(token.stderr, /the token file .*no-token cannot be read/);
  const key = await headgate(options, { env: { HEADGATE_SEALING_KEY: join(site.folder, 'no-key') } });
  assert.match(oneLineOf(key, 2), /the sealing key .*no-key is not there/);
  const here = await headgate(['versions'], { cwd: site.folder });
  assert.match(oneLineOf(here, 2), /which store\?/);
});

test('without a store of its own a folder has that of its `up`', async (t) => {
  const folder = temporaryFolder(t);
  const cluster = writeShop(folder);
  await headgate(['reconcile', '--cluster', cluster, '--store', pathToFileURL(join(folder, '.headgate/store')).href]);
  const { code, stdout } = await headgate(['status'], { cwd: folder });
  assert.equal(code, 0);
  assert.match(stdout, /^Head: version 1,/);
});
