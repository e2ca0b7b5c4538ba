// kill -9 on the way of changes that need no reload: between the commits of iptables, while blobs arrive, while commands go to HAProxy, and at
// any moment. Traffic goes on by what was there before or by what is new, and the next sidecar brings the node to what is new.

import assert from 'node:assert/strict';
import { watch } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { noHaproxy } from '../fixtures/run-haproxy.ts';
import type { StartedCommand } from './command.ts';
import { KillPoints, type KillPoint } from './kill-points.ts';
import { route, service } from './manifests.ts';
import { namespacesMissing } from './namespace.ts';
import { type WholeSystem, withSystem } from './whole-system.ts';

const skip = noHaproxy || (await namespacesMissing());

const HOST = 'web.example.test';
const WEB_IP = '172.30.0.10';
const FLIP_IP = '172.30.0.11';
/** REJECT rules come before nat loses the endpoints, and go after nat has them. */
const RESTORES: readonly KillPoint[] = [
  'before-restore-1',
  'after-restore-1',
  'before-restore-2',
  'after-restore-2',
  'after-restore-1',
  'before-restore-2',
];
const RANDOM_KILLS = 12;

describe('kill -9 without a reload', { skip, concurrency: 4 }, () => {
  it('between the commits of iptables', () =>
    withSystem(async (system) => {
      const points = await KillPoints.create(system.file('programs'));
      const node = await NodeUnderFire.start(system, () => system.sidecar(points.sidecar));
      for (const point of RESTORES) {
        await points.order(point, [node.sidecar.pid]);
        await node.change();
        await node.untilKilled(`the kill at ${point}`);
        await node.recover();
      }
      await system.untilTidy();
    }));

  it('while blobs arrive', () =>
    withSystem(async (system) => {
      const node = await NodeUnderFire.start(system, () => system.sidecar());
      const blobs = join(system.state, 'blobs');
      for (const arrivals of [1, 2, 4]) {
        let seen = 0;
        const watcher = watch(blobs, () => {
          seen += 1;
          if (seen >= arrivals) node.sidecar.kill('SIGKILL');
        });
        await node.change();
        await node.untilKilled(`the kill at blob event ${arrivals}`);
        watcher.close();
        await node.recover();
      }
      // Lost while nobody looked: fetched again.
      await node.sidecar.stop();
      for (const name of (await readdir(blobs)).filter((_, index) => index % 2 === 0)) await rm(join(blobs, name));
      await node.recover();
      await system.untilTidy();
    }));

  it('at any moment', () =>
    withSystem(async (system) => {
      const random = randomFrom(20_261_130);
      const node = await NodeUnderFire.start(system, () => system.sidecar());
      for (let kills = 0; kills < RANDOM_KILLS; kills += 1) {
        const kill = (): void => node.sidecar.kill('SIGKILL');
        // From the first notice of an application on, or, every third time, from the change of the cluster on.
        const journalled = watchJournal(system, () => setTimeout(kill, random(40)));
        await node.change();
        if (kills % 3 === 0) setTimeout(kill, random(400));
        await node.untilKilled('the kill');
        journalled.close();
        await node.recover();
      }
      await system.untilTidy();
    }));

  it('HAProxy alone, while it is given commands', () =>
    withSystem(async (system) => {
      const node = await NodeUnderFire.start(system, () => system.sidecar());
      node.mayMissRouter = true;
      for (const victims of [['worker'], ['master'], ['worker', 'master'], ['worker']] as const) {
        const running = await system.haproxy();
        const kill = (): void => victims.forEach((victim) => killIfThere(running[victim].pid));
        const journalled = watchJournal(system, kill);
        await node.change();
        await node.untilNew();
        journalled.close();
        const { worker } = await system.haproxy();
        assert.notEqual(worker.pid, running.worker.pid, 'HAProxy was to be killed');
      }
      await system.untilTidy();
    }));
});

/** A node whose sidecar is killed over and over, and whose traffic is looked at all the time. */
class NodeUnderFire {
  readonly #system: WholeSystem;
  readonly #start: () => StartedCommand;
  /** Nobody answers for a moment while HAProxy is started again. */
  mayMissRouter = false;
  #sidecar: StartedCommand;
  /** The pods that may answer: before, and now. Null: nobody, the service has none. */
  #web: readonly [string, string] = [pod(1), pod(1)];
  #flip: readonly [string | null, string | null] = [pod(2), pod(2)];
  #pods = 2;

  private constructor(system: WholeSystem, start: () => StartedCommand) {
    this.#system = system;
    this.#start = start;
    this.#sidecar = start().mayEnd();
  }

  static async start(system: WholeSystem, start: () => StartedCommand): Promise<NodeUnderFire> {
    await system.cluster(manifests(pod(1), pod(2)));
    await system.functions();
    const node = new NodeUnderFire(system, start);
    await system.until('the node is ready', () => system.ready());
    return node;
  }

  get sidecar(): StartedCommand {
    return this.#sidecar;
  }

  /** One service moves to a new pod; another one loses its only pod, or gets one. Content that was here before would not be fetched. */
  async change(): Promise<void> {
    this.#pods += 2;
    this.#web = [this.#web[1], pod(this.#pods - 1)];
    this.#flip = [this.#flip[1], this.#flip[1] === null ? pod(this.#pods) : null];
    await this.#system.cluster(manifests(this.#web[1], this.#flip[1]));
  }

  async untilKilled(what: string): Promise<void> {
    await this.#system.until(what, async () => (await this.#isNew(), this.#sidecar.hasEnded));
  }

  async recover(): Promise<void> {
    await this.#sidecar.ended;
    this.#sidecar = this.#start().mayEnd();
    await this.untilNew();
  }

  async untilNew(): Promise<void> {
    await this.#system.until('the node is ready and runs the newest', async () => (await this.#isNew()) && this.#system.ready());
  }

  /** Asks all; fails when somebody answers who should not. */
  async #isNew(): Promise<boolean> {
    const [routed, direct, flipping] = await Promise.all([HOST, WEB_IP, FLIP_IP].map((at) => this.#system.answers(at)));
    const nobody = this.mayMissRouter && !/^\d/.test(routed ?? '');
    assert.ok(nobody || this.#web.includes(routed ?? ''), `${routed} answered for ${HOST}, not one of ${this.#web.join(', ')}`);
    assert.ok(this.#web.includes(direct ?? ''), `${direct} answered behind ${WEB_IP}, not one of ${this.#web.join(', ')}`);
    const flipped = /^\d/.test(flipping ?? '') ? flipping : null;
    assert.ok(
      this.#flip.some((expected) => expected === flipped),
      `${flipping} answered behind ${FLIP_IP}`,
    );
    return routed === this.#web[1] && direct === this.#web[1] && flipped === this.#flip[1];
  }
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It went with the one killed before.
  }
}

function pod(number: number): string {
  return `10.180.1.${number}`;
}

function manifests(web: string, flip: string | null) {
  return [...service('web', WEB_IP, [web]), ...service('flip', FLIP_IP, flip === null ? [] : [flip]), route('web', HOST, 'web')];
}

/** Calls once when the router's journal is next written. */
function watchJournal(system: WholeSystem, onEntry: () => void): { close(): void } {
  const watcher = watch(system.state, (_event, name) => {
    if (name === 'journal') onEntry();
  });
  return watcher;
}

/** The same numbers for the same seed (mulberry32). */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
