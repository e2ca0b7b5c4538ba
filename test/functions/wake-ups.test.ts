import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type WakeUpOptions, type WakeUpOutcome, WakeUps } from '../../functions/wake-ups.ts';
import { HeadgateError } from '../../shared/error.ts';
import type { ObjectStore } from '../../shared/object-store/object-store.ts';
import { faultyObjects, scratchObjects } from '../shared/version-store/scratch-store.ts';

/** A clock that moves only when somebody sleeps. */
class Clock {
  ms = 1_900_000_000_000;
  readonly now = (): number => this.ms;
  readonly sleep = async (ms: number): Promise<void> => {
    await new Promise((resolve) => setImmediate(resolve));
    this.ms += ms;
  };
}

interface Bench {
  readonly objects: ObjectStore;
  readonly clock: Clock;
  readonly wakeUps: (options?: Partial<WakeUpOptions>) => WakeUps;
  /** When each pass began. */
  readonly passes: number[];
}

async function bench(t: TestContext): Promise<Bench> {
  const objects = await scratchObjects(t);
  const clock = new Clock();
  const passes: number[] = [];
  const pass = (): Promise<void> => {
    passes.push(clock.ms);
    return Promise.resolve();
  };
  const common = { objects, pass, holder: 'one', lastMove: () => Promise.resolve(null), now: clock.now, sleep: clock.sleep };
  return { objects, clock, passes, wakeUps: (options) => new WakeUps({ ...common, ...options }) };
}

const stored = async (objects: ObjectStore, key: string) => JSON.parse(Buffer.from((await objects.get(key))?.bytes ?? []).toString('utf8'));

test('without a mark nothing is done; a mark is served once, and all can see it', async (t) => {
  const { objects, passes, wakeUps } = await bench(t);
  const one = wakeUps();
  assert.equal(await one.runIfDirty(), 'clean');
  await one.mark();
  assert.equal(await wakeUps({ holder: 'two' }).runIfDirty(), 'served');
  assert.equal(await one.runIfDirty(), 'clean');
  assert.equal(passes.length, 1);
  const lease = await stored(objects, 'lease.json');
  assert.deepEqual(lease, { holder: null, until: 0, served: (await stored(objects, 'dirty.json')).token });
});

test('triggers within 250 ms share one write, which begins after all of them', async (t) => {
  const { objects, clock, wakeUps } = await bench(t);
  const counted = faultyObjects(objects, { at: 0, when: 'before' });
  const one = wakeUps({ objects: counted });
  await one.mark();
  const first = (await stored(objects, 'dirty.json')).token;
  const [soon, later] = [one.mark(), one.mark(2_000)];
  await Promise.all([soon, later]);
  assert.equal(counted.writes.length, 2);
  const dirty = await stored(objects, 'dirty.json');
  assert.notEqual(dirty.token, first);
  assert.ok(dirty.notBefore >= clock.ms + 1_700);
});

test('a mark never shortens the delay that another asked for, nor keeps one of a clock that is far ahead', async (t) => {
  const { objects, clock, wakeUps } = await bench(t);
  await wakeUps().mark(2_000);
  await wakeUps({ holder: 'two' }).mark();
  assert.equal((await stored(objects, 'dirty.json')).notBefore, clock.ms + 2_000);
  await objects.put('dirty.json', Buffer.from(JSON.stringify({ token: 'x', notBefore: clock.ms + 86_400_000 })));
  await wakeUps().mark();
  assert.ok((await stored(objects, 'dirty.json')).notBefore <= clock.ms + 5_000);
});

test('a delayed mark is served only by a reading that begins after it', async (t) => {
  const { clock, passes, wakeUps } = await bench(t);
  const one = wakeUps();
  const marked = clock.ms;
  await one.mark(2_000);
  assert.equal(await one.runIfDirty(), 'served');
  assert.equal(passes.length, 1);
  assert.ok((passes[0] ?? 0) >= marked + 2_000);
});

test('a pass waits until a second after the last move', async (t) => {
  const { clock, passes, wakeUps } = await bench(t);
  const moved = clock.ms - 300;
  const one = wakeUps({ lastMove: () => Promise.resolve(moved) });
  await one.mark();
  await one.runIfDirty();
  assert.deepEqual(passes, [moved + 1_000]);
});

test('while another holds the lease we are busy; when it ran out we are not', async (t) => {
  const { objects, clock, passes, wakeUps } = await bench(t);
  await wakeUps().mark();
  await objects.put('lease.json', Buffer.from(JSON.stringify({ holder: 'dead', until: clock.ms + 9_000, served: null })));
  assert.equal(await wakeUps().runIfDirty(), 'busy');
  assert.equal(passes.length, 0);
  clock.ms += 9_001;
  assert.equal(await wakeUps().runIfDirty(), 'served');
});

test('a trigger that comes during a pass is served by the same holder; after three passes it says busy', async (t) => {
  const { objects, clock, wakeUps } = await bench(t);
  const other = wakeUps({ holder: 'two' });
  const outcomes: WakeUpOutcome[] = [];
  let triggers = 1;
  let passes = 0;
  const one = wakeUps({
    pass: async () => {
      passes += 1;
      if (triggers === 0) return;
      triggers -= 1;
      clock.ms += 300;
      await other.mark();
      outcomes.push(await other.runIfDirty());
    },
  });
  await one.mark();
  assert.equal(await one.runIfDirty(), 'served');
  assert.deepEqual([passes, outcomes], [2, ['busy']]);
  triggers = 100;
  await other.mark();
  assert.equal(await one.runIfDirty(), 'busy');
  assert.equal(passes, 5);
  assert.equal((await stored(objects, 'lease.json')).holder, null);
});

test('a pass that fails serves nothing and lets the lease go', async (t) => {
  const { objects, passes, wakeUps } = await bench(t);
  const failing = wakeUps({ pass: () => Promise.reject(new HeadgateError('cannot-list', 'read-cluster', 'no')) });
  await failing.mark();
  await assert.rejects(failing.runIfDirty(), { code: 'cannot-list' });
  assert.deepEqual(await stored(objects, 'lease.json'), { holder: null, until: 0, served: null });
  assert.equal(await wakeUps({ holder: 'two' }).runIfDirty(), 'served');
  assert.equal(passes.length, 1);
});

test('a holder that was slow does not free or answer for the lease of the one that took over', async (t) => {
  const { objects, clock, wakeUps } = await bench(t);
  const slow = wakeUps({
    pass: async () => {
      clock.ms += 60_000;
      await objects.put('lease.json', Buffer.from(JSON.stringify({ holder: 'two', until: clock.ms + 20_000, served: null })));
    },
  });
  await slow.mark();
  assert.equal(await slow.runIfDirty(), 'busy');
  assert.equal((await stored(objects, 'lease.json')).holder, 'two');
});

test('triggers of many processes in any order: the last change is read, and a look finds nothing left', async (t) => {
  const { clock, wakeUps } = await bench(t);
  for (let round = 0; round < 5; round += 1) {
    let changes = 0;
    let published = 0;
    const pass = async (): Promise<void> => {
      const read = changes;
      for (let turn = 0; turn < 1 + (read % 7); turn += 1) await clock.sleep(10);
      published = Math.max(published, read);
    };
    const processes = Array.from({ length: 4 }, (_, index) => wakeUps({ holder: `p${index}`, pass }));
    await Promise.all(
      Array.from({ length: 12 }, async (_, index) => {
        for (let turn = 0; turn < (index * 5 + round) % 11; turn += 1) await clock.sleep(20);
        changes += 1;
        const one = processes[index % 4] ?? assert.fail();
        await one.mark();
        await one.runIfDirty();
      }),
    );
    // What stream hosts do every two seconds, for holders that stopped after three passes.
    while ((await processes[0]?.runIfDirty()) !== 'clean') clock.ms += 2_000;
    assert.equal(published, changes);
  }
});

test('unreadable state is named with what to do', async (t) => {
  const { objects, wakeUps } = await bench(t);
  await objects.put('dirty.json', Buffer.from('{'));
  await assert.rejects(
    wakeUps().runIfDirty(),
    (thrown) => thrown instanceof HeadgateError && /dirty\.json .*delete it/.test(thrown.message),
  );
});

test('a lease of a clock that is far ahead keeps nobody away', async (t) => {
  const { objects, clock, passes, wakeUps } = await bench(t);
  await objects.put('lease.json', Buffer.from(JSON.stringify({ holder: 'dead', until: clock.ms + 86_400_000, served: null })));
  const one = wakeUps();
  await one.mark();
  assert.equal(await one.runIfDirty(), 'served');
  assert.equal(passes.length, 1);
});
