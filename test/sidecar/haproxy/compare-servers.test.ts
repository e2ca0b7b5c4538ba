import assert from 'node:assert/strict';
import { test } from 'node:test';
import { composeRouter } from '../../../shared/router/compose.ts';
import { compareServers, leftOver } from '../../../sidecar/haproxy/compare-servers.ts';
import { routerContents } from '../../../sidecar/haproxy/contents.ts';
import type { ServerReadback } from '../../../sidecar/haproxy/readback.ts';
import { routerShards, testServer } from '../../fixtures/router-shards.ts';

const NAME = 'be_http:ns:one';
const CONTENTS = routerContents(composeRouter(routerShards({ port: 80, backends: [{ name: NAME, servers: [testServer(1)] }] })));
const runs = (change: Partial<ServerReadback> = {}): ServerReadback => {
  return { backend: NAME, name: testServer(1).name, address: '127.0.0.1', port: 1, weight: 1, maintenance: false, ...change };
};

test('nothing for what is as it should be; backends of the base do not count', () => {
  const readback = [runs(), runs({ backend: 'be_https', name: 'fe_https' })];
  assert.deepEqual(compareServers(CONTENTS, readback, new Map()), { found: [], commands: [], reload: false });
});

test('weights and maintenance are put right by commands', () => {
  const { found, commands, reload } = compareServers(CONTENTS, [runs({ weight: 5, maintenance: true })], new Map());
  assert.equal(found.length, 2);
  const path = `${NAME}/${testServer(1).name}`;
  assert.deepEqual(
    commands.map(({ text }) => text),
    [`set server ${path} weight 1`, `set server ${path} state ready`],
  );
  assert.equal(reload, false);
});

test('a server that is missing, moved or not ours takes a reload; one that is being removed does not', () => {
  for (const readback of [[], [runs({ port: 9 })], [runs(), runs({ name: 'x' })]]) {
    const { found, reload } = compareServers(CONTENTS, readback, new Map());
    assert.deepEqual([found.length, reload], [1, true]);
  }
  const left = runs({ name: 'x', maintenance: true });
  assert.equal(compareServers(CONTENTS, [runs(), left], new Map([[`${NAME}/x`, null]])).reload, false);
  assert.deepEqual([...leftOver(CONTENTS, [runs(), left])], [[`${NAME}/x`, null]]);
});
