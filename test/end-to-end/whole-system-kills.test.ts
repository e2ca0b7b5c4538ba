// kill -9 of the sidecar, of HAProxy's worker and master, and of all of them, at each point of a change that reloads: what answers is the
// configuration before or the new one, never anything else; in the end it is the new one, and the node is ready.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { noHaproxy } from '../fixtures/run-haproxy.ts';
import { KillPoints, type KillPoint } from './kill-points.ts';
import { route, service } from './manifests.ts';
import { namespacesMissing } from './namespace.ts';
import { type WholeSystem, withSystem } from './whole-system.ts';

const skip = noHaproxy || (await namespacesMissing());

const HOST = 'web.example.test';
const CLUSTER_IP = '172.30.0.10';
const [A, B] = ['10.180.0.1', '10.180.0.2'] as const;
const POINTS: readonly KillPoint[] = ['before-check', 'after-check', 'before-signal', 'after-signal'];
const FIRST_POINTS: readonly KillPoint[] = ['before-check', 'after-check', 'before-restore-1', 'after-restore-1', 'after-restore-2'];
type Victim = 'sidecar' | 'worker' | 'master';
const VICTIMS = [
  ['sidecar'],
  ['worker'],
  ['master'],
  ['worker', 'master'],
  ['worker', 'master', 'sidecar'],
] as const satisfies readonly (readonly Victim[])[];

// Most of the time each waits: HAProxy is not reloaded twice in a few seconds.
describe('kill -9 at each point of a reload', { skip, concurrency: VICTIMS.length }, () => {
  for (const victims of VICTIMS) it(victims.join(', '), () => withSystem((system) => killAtEachPoint(system, victims)));
});

describe('kill -9 before the first version runs', { skip, concurrency: FIRST_POINTS.length }, () => {
  for (const point of FIRST_POINTS) it(point, () => withSystem((system) => killAtFirst(system, point)));
});

async function killAtFirst(system: WholeSystem, point: KillPoint): Promise<void> {
  const points = await KillPoints.create(system.file('programs'));
  const sidecar = system.sidecar(points.sidecar).mayEnd();
  await system.until('the sidecar answers that it is not ready', async () => (await system.sidecarStatus('/readyz')) === 503);
  await points.order(point, [sidecar.pid]);
  await system.cluster(service('a', CLUSTER_IP, [A]), route('web', HOST, 'a'));
  await system.functions();
  await system.until(`the kill at ${point}`, () => points.struck && sidecar.hasEnded);
  system.sidecar(points.sidecar);
  await system.until('the node is ready', () => system.ready());
  assert.deepEqual([await system.answers(HOST), await system.answers(CLUSTER_IP)], [A, A]);
  await system.untilTidy();
}

async function killAtEachPoint(system: WholeSystem, victims: readonly Victim[]): Promise<void> {
  // Another timeout is another fixed part of the backend: HAProxy has to reload for it.
  const cluster = (to: string, timeout: string) =>
    system.cluster(
      service('a', CLUSTER_IP, [A]),
      service('b', '172.30.0.11', [B]),
      route('web', HOST, to, {}, { 'haproxy.router.openshift.io/timeout': timeout }),
    );
  const points = await KillPoints.create(system.file('programs'));
  await cluster('a', '10s');
  await system.functions();
  let sidecar = system.sidecar(points.sidecar).mayEnd();
  await system.until('the node is ready', () => system.ready());
  assert.equal(await system.answers(HOST), A);

  for (const [index, point] of POINTS.entries()) {
    const [before, next, to] = index % 2 === 0 ? ([A, B, 'b'] as const) : ([B, A, 'a'] as const);
    const isNext = async (): Promise<boolean> => {
      const answer = await system.answers(HOST);
      const nobody = !/^\d/.test(answer) && victims[0] !== 'sidecar';
      assert.ok(nobody || answer === before || answer === next, `${point}: ${answer} answered`);
      assert.equal(await system.answers(CLUSTER_IP), A);
      return answer === next;
    };
    const { worker, master } = await system.haproxy();
    const pids = { sidecar: sidecar.pid, worker: worker.pid, master: master.pid };
    await points.order(
      point,
      victims.map((victim) => pids[victim]),
    );
    await cluster(to, `${20 + index}s`);
    await system.until(`the kill at ${point}`, async () => (await isNext()) || points.struck);
    assert.ok(points.struck, `nothing was killed at ${point}`);
    if (!victims.includes('sidecar')) await system.until('the new configuration answers', isNext);
    // A sidecar that went on is restarted as well: so soon after its reload it would let the next one wait.
    await sidecar.stop();
    sidecar = system.sidecar(points.sidecar).mayEnd();
    await system.until('the new configuration answers and the node is ready', async () => (await isNext()) && system.ready());
    await system.until('nothing but the new configuration answers', async () => {
      for (let asked = 0; asked < 5; asked += 1) if (!(await isNext())) return false;
      return true;
    });
  }
  await system.untilTidy();
}
