import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { diffVersions } from '../../functions/diff.ts';
import { defaultOptions } from '../../functions/load-options.ts';
import { reconcile } from '../../functions/reconcile.ts';
import { HeadgateError } from '../../shared/error.ts';
import { scratchStore } from '../shared/version-store/scratch-store.ts';
import { smallCluster } from './memory-cluster.ts';

test('what differs, in the words of the cluster', async (t) => {
  const store = await scratchStore(t);
  const cluster = smallCluster();
  const run = (options = defaultOptions()) =>
    reconcile({ store, cluster, options, trigger: 'test', author: 'functions', logger: pino({ level: 'silent' }) });
  cluster.route('gone', { host: 'gone.example.com' });
  await run();
  cluster.remove('Route/gone');
  cluster.route('front', { host: 'front.example.com', path: '/shop' });
  cluster.route('new', { host: 'new.example.com' });
  cluster.route('broken', { host: 'not a host' });
  cluster.service('web', { sessionAffinity: 'ClientIP' });
  cluster.endpoints('web', '10.1.0.2', '10.1.0.3');
  cluster.node('node-b', '192.0.2.2');
  const defaults = defaultOptions();
  await run({ ...defaults, router: { ...defaults.router, maxConnections: 1234 } });

  const diff = await diffVersions(store, 1, 2);
  assert.deepEqual(
    diff.routes.map(({ name, change }) => `${name} ${change}`),
    ['shop/front changed', 'shop/gone removed', 'shop/new added'],
  );
  assert.deepEqual(diff.routes[0]?.fields, [{ field: 'path', from: '', to: '/shop' }]);
  assert.deepEqual(diff.services, [{ name: 'shop/web', change: 'changed', fields: [{ field: 'affinitySeconds', from: null, to: 10800 }] }]);
  assert.deepEqual(diff.endpoints, [{ service: 'shop/web', added: ['10.1.0.3:8080/TCP'], removed: ['10.1.0.1:8080/TCP'], changed: [] }]);
  assert.deepEqual(
    diff.nodes.map(({ name, change }) => `${name} ${change}`),
    ['node-b added'],
  );
  assert.deepEqual(diff.options, [{ field: 'options.maxConnections', from: 50000, to: 1234 }]);
  assert.deepEqual(
    diff.rejections.added.map(({ name, reason }) => `${name} ${reason}`),
    ['broken InvalidHost'],
  );
  assert.deepEqual(diff.rejections.removed, []);
  assert.ok(diff.files.some(({ path, change }) => path === 'router/config/00-base.cfg' && change === 'changed'));

  const back = await diffVersions(store, 2, 1);
  assert.deepEqual(back.endpoints, [{ service: 'shop/web', added: ['10.1.0.1:8080/TCP'], removed: ['10.1.0.3:8080/TCP'], changed: [] }]);
  assert.deepEqual(back.rejections.removed, diff.rejections.added);
  const same = await diffVersions(store, 2, 2);
  assert.deepEqual([same.files, same.routes, same.endpoints, same.options], [[], [], [], []]);
  await assert.rejects(diffVersions(store, 1, 3), (thrown) => thrown instanceof HeadgateError && thrown.code === 'unknown-version');
});
