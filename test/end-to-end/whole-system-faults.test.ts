// What one part cannot do never holds the others: functions that are away, HAProxy that was killed meanwhile, a configuration that HAProxy
// refuses, rules that iptables refuses.

import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Status } from '../../functions/operate.ts';
import { noHaproxy } from '../fixtures/run-haproxy.ts';
import { KillPoints } from './kill-points.ts';
import { route, service } from './manifests.ts';
import { namespacesMissing } from './namespace.ts';
import { isCurrent, reported, type WholeSystem, withSystem } from './whole-system.ts';

const skip = noHaproxy || (await namespacesMissing());

const HOST = 'web.example.test';
const CLUSTER_IP = '172.30.0.10';
const [A, B, C] = ['10.180.0.1', '10.180.0.2', '10.180.0.3'] as const;
const BACKEND = fileURLToPath(new URL('../../functions/router/templates/backend.hbs', import.meta.url));

const cluster = (system: WholeSystem, pod: string) => system.cluster(service('web', CLUSTER_IP, [pod]), route('web', HOST, 'web'));

async function answersEverywhere(system: WholeSystem, pod: string): Promise<void> {
  await system.untilAnswers(HOST, pod);
  await system.untilAnswers(CLUSTER_IP, pod);
}

describe('a part that fails', { skip, concurrency: 4 }, () => {
  it('traffic outlives the sidecar, and a sidecar comes up from disk with nothing else', () =>
    withSystem(async (system) => {
      await cluster(system, A);
      const functions = await system.functions();
      const first = system.sidecar();
      await system.until('the node is ready', () => system.ready());
      assert.equal(await functions.stop(), 0);
      assert.equal(await first.stop(), 0);
      const { master, worker } = await system.haproxy();
      await answersEverywhere(system, A);

      const second = system.sidecar();
      await system.until('the node is ready from disk', () => system.ready());
      await answersEverywhere(system, A);
      assert.equal((await system.haproxy()).worker.pid, worker.pid, 'HAProxy goes on as it is');

      await second.stop();
      for (const pid of [master.pid, worker.pid]) process.kill(pid, 'SIGKILL');
      await system.run('iptables', '-t', 'nat', '-F');
      await system.until('nobody answers', async () => /E|hang up|answer/.test(await system.answers(HOST)));
      system.sidecar();
      await system.until('the node is ready from disk', () => system.ready());
      await answersEverywhere(system, A);

      await cluster(system, B);
      await system.functions();
      await answersEverywhere(system, B);
    }));

  it('HAProxy refuses the configuration: it keeps the old one, and services move on', () =>
    withSystem(async (system) => {
      await cluster(system, A);
      let functions = await system.functions();
      system.sidecar();
      await system.until('the node is ready', () => system.ready());

      await functions.stop();
      await mkdir(system.file('templates'));
      const ours = await readFile(BACKEND, 'utf8');
      await writeFile(system.file('templates/backend.hbs'), ours.replace('\n', '\n  no-such-keyword at all\n'));
      await system.options([`templates: ${system.file('templates')}`]);
      await cluster(system, B);
      functions = await system.functions();

      await system.untilAnswers(CLUSTER_IP, B);
      const refused = await system.untilStatus('the router refused', (status) => reported(status, 'router')?.outcome === 'refused');
      assert.match(reported(refused, 'router')?.message ?? '', /no-such-keyword/);
      assert.equal(reported(refused, 'router')?.stage, 'check');
      assertApplied(refused, 'service-proxy');
      assert.match(await system.headgate('status'), /router .*refused.*no-such-keyword/);
      assert.equal(await system.answers(HOST), A);
      assert.ok(await system.ready(), 'a node that serves is ready');

      await functions.stop();
      await system.options([]);
      await system.functions();
      await answersEverywhere(system, B);
      await system.untilStatus('both roles run the head', isCurrent);
    }));

  it('iptables refuses rules: they stay as they were, and routes move on', () =>
    withSystem(async (system) => {
      const points = await KillPoints.create(system.file('programs'));
      await cluster(system, A);
      await system.functions();
      system.sidecar(points.sidecar);
      await system.until('the node is ready', () => system.ready());

      await points.refuseRules('iptables-restore: line 3 failed: no such match');
      await cluster(system, B);
      await system.untilAnswers(HOST, B);
      const refused = await system.untilStatus('the service proxy refused', (status) => {
        return (
          reported(status, 'service-proxy')?.outcome === 'refused' && reported(status, 'router')?.version === status.head?.target.number
        );
      });
      assert.match(reported(refused, 'service-proxy')?.message ?? '', /no such match/);
      assertApplied(refused, 'router');
      assert.equal(await system.answers(CLUSTER_IP), A);

      await points.refuseRules(null);
      await cluster(system, C);
      await answersEverywhere(system, C);
      await system.untilStatus('both roles run the head', isCurrent);
    }));

  it('HAProxy hangs: the router fails in words, services move on, and it goes on when HAProxy does', () =>
    withSystem(async (system) => {
      await cluster(system, A);
      await system.functions();
      system.sidecar();
      await system.until('the node is ready', () => system.ready());
      const { worker } = await system.haproxy();

      process.kill(worker.pid, 'SIGSTOP');
      await cluster(system, B);
      await system.untilAnswers(CLUSTER_IP, B);
      const failed = await system.untilStatus('the router failed', (status) => reported(status, 'router')?.outcome === 'failed');
      assert.match(reported(failed, 'router')?.message ?? '', /HAProxy gave no answer/);
      assertApplied(failed, 'service-proxy');
      assert.ok(!(await system.ready()), 'a node whose router hangs is not ready');

      process.kill(worker.pid, 'SIGCONT');
      await answersEverywhere(system, B);
      assert.equal((await system.haproxy()).worker.pid, worker.pid);
    }));
});

function assertApplied(status: Status, role: 'router' | 'service-proxy'): void {
  const result = reported(status, role);
  assert.deepEqual([result?.outcome, result?.version], ['applied', status.head?.target.number]);
}
