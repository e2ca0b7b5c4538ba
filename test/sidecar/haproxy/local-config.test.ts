import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localConfig } from '../../../sidecar/haproxy/local-config.ts';
import { routerPaths } from '../../../sidecar/haproxy/paths.ts';

const SETTINGS = { run: '/s/run', adminSocket: '/s/run/admin.sock', account: null, ipv6: true };

test('sockets, the generation and who runs the workers', () => {
  const text = localConfig({ ...SETTINGS, account: { user: 'haproxy', group: 'haproxy' }, ipv6: false }, 'abc');
  for (const line of [
    'description abc',
    "setenv HEADGATE_RUN '/s/run'",
    'setenv HEADGATE_NO_IPV6 1',
    "stats socket '/s/run/admin.sock' mode 600 level admin expose-fd listeners",
    'user haproxy',
    'unix-bind user haproxy group haproxy',
  ]) {
    assert.ok(text.split('\n').includes(`  ${line}`), line);
  }
  assert.doesNotMatch(localConfig(SETTINGS, null), /description|user /);
});

test('a state folder that HAProxy could not use is refused, with what to do', () => {
  for (const state of ['/a,b', '/a$b', "/a'b", '/a\nb', `/${'x'.repeat(90)}`]) {
    assert.throws(() => routerPaths(state), { code: 'bad-state-directory', message: /choose another one with --state/ }, state);
  }
  assert.equal(routerPaths('/var/lib/head gate').adminSocket, '/var/lib/head gate/run/admin.sock');
});
