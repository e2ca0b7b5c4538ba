// The life of a node under the real commands: the first version, changes of routes and endpoints, a rollback and its end.

import assert from 'node:assert/strict';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Head } from '../../shared/head.ts';
import { noHaproxy } from '../fixtures/run-haproxy.ts';
import { selfSigned } from '../functions/router/fixtures.ts';
import { runToEnd } from './command.ts';
import { route, service } from './manifests.ts';
import { namespacesMissing } from './namespace.ts';
import { isCurrent, reported, type WholeSystem, withSystem } from './whole-system.ts';

const skip = noHaproxy || (await namespacesMissing());

const HOST = 'web.example.test';
const SECURE = 'secure.example.test';
const CLUSTER_IP = '172.30.0.10';
const [FIRST, SECOND, THIRD] = ['10.180.0.1', '10.180.0.2', '10.180.0.3'] as const;

const web = (pod: string) => service('web', CLUSTER_IP, [pod]);

test('routes and services follow the cluster', { skip }, () =>
  withSystem(async (system) => {
    await system.cluster(web(FIRST), route('web', HOST, 'web'));
    await system.functions();
    system.sidecar();
    await system.until('the node is ready', () => system.ready());
    assert.equal(await system.answers(HOST), FIRST);
    assert.equal(await system.answers(CLUSTER_IP), FIRST);
    await assertModes(system);

    const before = await system.haproxy();
    await assertUnprivileged(before.worker.pid);
    await system.cluster(web(SECOND), route('web', HOST, 'web'));
    await system.untilAnswers(HOST, SECOND);
    await system.untilAnswers(CLUSTER_IP, SECOND);
    assert.equal((await system.haproxy()).worker.pid, before.worker.pid, 'endpoints change without a reload');

    const pem = await selfSigned(SECURE);
    const [certificate, key] = splitPem(pem);
    await system.cluster(
      web(SECOND),
      service('other', '172.30.0.11', [THIRD]),
      route('web', HOST, 'other'),
      route('broken', 'Not_A_Host', 'web'),
      route('secure', SECURE, 'web', { tls: { termination: 'edge', certificate, key } }),
    );
    await system.untilAnswers(HOST, THIRD);
    await system.untilAnswers('172.30.0.11', THIRD);
    const reply = await system.ask({ host: SECURE, tls: true });
    assert.ok(!('error' in reply), JSON.stringify(reply));
    assert.deepEqual([reply.status, reply.pod, reply.names], [200, SECOND, `DNS:${SECURE}`]);
    const { head } = await system.untilStatus('the node runs the head', isCurrent);
    const version = String(head?.target.number);
    const { files }: { files: Record<string, unknown> } = JSON.parse(await system.headgate('show', version, '--json'));
    const [rejections = ''] = Object.keys(files).filter((path) => path.startsWith('rejections/'));
    assert.match(await system.headgate('show', version, rejections), /"name":"broken".*InvalidHost/);
  }),
);

test('a rollback holds the configuration, and endpoints go on moving', { skip }, () =>
  withSystem(async (system) => {
    await system.cluster(web(FIRST), service('other', '172.30.0.11', [THIRD]), route('web', HOST, 'web'));
    await system.functions();
    system.sidecar();
    await system.untilAnswers(HOST, FIRST);
    await untilApplied(system, { version: 1, router: 'start', proxy: 'restore' });

    const others = service('other', '172.30.0.11', [THIRD]);
    await system.cluster(web(FIRST), others, route('web', HOST, 'other'));
    await system.untilAnswers(HOST, THIRD);
    await untilApplied(system, { version: 2, router: 'runtime', proxy: 'unchanged' });

    await system.headgate('rollback', '1', '--reason', 'third is wrong');
    await system.untilAnswers(HOST, FIRST);
    const rolledBack = await untilApplied(system, { router: 'runtime', proxy: 'unchanged' });
    assert.equal(rolledBack.pin?.version, 1);

    await system.cluster(web(SECOND), others, route('web', HOST, 'other'));
    await system.untilAnswers(HOST, SECOND);
    await system.untilAnswers(CLUSTER_IP, SECOND);
    const moved = await untilApplied(system, { router: 'runtime', proxy: 'partial' });
    assert.ok(moved.sequence > rolledBack.sequence);

    await system.cluster(web(SECOND), others, route('web', HOST, 'other'), route('newer', 'newer.example.test', 'other'));
    await system.untilStatus('newer configuration waits', ({ head }) => {
      return head !== null && head.pin !== null && head.newest.number > head.target.number && head.newest.number > moved.latest.number;
    });
    assert.equal(await system.answers('newer.example.test'), '503');
    assert.equal(await system.answers(HOST), SECOND);

    await system.headgate('resume', '--reason', 'third is right');
    await system.untilAnswers('newer.example.test', THIRD);
    await system.untilAnswers(HOST, THIRD);
    const resumed = await untilApplied(system, { router: 'reload', proxy: 'unchanged' });
    assert.equal(resumed.pin, null);
  }),
);

test('a second sidecar is refused in one line, on the same state folder and in the same namespace', { skip }, () =>
  withSystem(async (system) => {
    await system.cluster(web(FIRST), route('web', HOST, 'web'));
    await system.functions();
    system.sidecar({ roles: 'router' });
    await system.until('the node is ready', () => system.ready());

    const sameState = system.sidecar({ roles: 'service-proxy' }).mayEnd();
    assert.equal(await sameState.ended, 1);
    assert.match(sameState.said, /^headgate: [^\n]*is in use by another sidecar[^\n]*\n$/);
    const sameRole = system.sidecar({ roles: 'router', state: system.file('node-2'), node: 'n2' }).mayEnd();
    assert.equal(await sameRole.ended, 1);
    assert.match(sameRole.said, /^headgate: [^\n]*another sidecar serves the role router[^\n]*\n$/);

    assert.equal(await system.answers(HOST), FIRST);
    system.sidecar({ roles: 'service-proxy', state: system.file('node-2'), node: 'n2' });
    await system.untilAnswers(CLUSTER_IP, FIRST);
  }),
);

/** Waits until the node has reported the head's target; it got there in these ways. Gives the head. */
async function untilApplied(system: WholeSystem, expected: { version?: number; router: string; proxy: string }): Promise<Head> {
  const status = await system.untilStatus('the node runs the head', isCurrent);
  const ways = { router: reported(status, 'router')?.how, proxy: reported(status, 'service-proxy')?.how };
  assert.deepEqual({ version: status.head?.target.number, ...ways }, { version: status.head?.target.number, ...expected });
  assert.ok(status.head !== null);
  return status.head;
}

/** Only what HAProxy's workers need can be entered by others. */
async function assertModes(system: WholeSystem): Promise<void> {
  const modes = { '.': 0o711, run: 0o711, blobs: 0o700, roles: 0o700, 'router/generations': 0o700, 'master.sock': 0o600 };
  for (const [path, mode] of Object.entries(modes)) {
    assert.equal(((await stat(join(system.state, path))).mode & 0o777).toString(8), mode.toString(8), path);
  }
  const sockets = await readdir(system.paths.run);
  assert.ok(sockets.includes('admin.sock') && sockets.includes('fe_https.sock'), sockets.join(', '));
  for (const name of sockets) assert.equal((await stat(join(system.paths.run, name))).mode & 0o022, 0, `${name} is for its owner alone`);
}

async function assertUnprivileged(pid: number): Promise<void> {
  const uid = /^Uid:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1];
  const { stdout, code } = await runToEnd(['id', '-u', 'haproxy']);
  if (code === 0) assert.equal(uid, stdout.trim(), 'workers run as the user haproxy');
}

function splitPem(pem: string): [certificate: string, key: string] {
  const at = pem.indexOf('-----BEGIN', 1);
  return [pem.slice(0, at), pem.slice(at)];
}
