import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ReconcileLoop } from '../../functions/reconcile-loop.ts';
import { until } from '../fixtures/poll.ts';
import { SILENT } from '../fixtures/stream-host.ts';

const PUBLISHED = { version: 1, sequence: 1, changed: true };
const QUICK = { lookMs: 5, resyncMs: 1e9, retry: { leastMs: 5, mostMs: 20 } };
const NEVER = 1e9;

function world(t: TestContext, timings = QUICK) {
  const calls: string[] = [];
  const state = { problem: null as string | null, duringCall: () => undefined as void };
  const call = async (what: string) => {
    calls.push(what);
    state.duringCall();
    if (state.problem !== null) throw new Error(state.problem);
    return PUBLISHED;
  };
  const triggers = {
    mark: async (delayMs: number) => void calls.push(`mark ${delayMs}`),
    reconcile: (trigger: string) => call(trigger),
    serveMarks: async () => (await call('look'), null),
  };
  const loop = new ReconcileLoop({ triggers, logger: SILENT, timings });
  t.after(() => loop.close());
  return { loop, calls, state };
}

test('it reconciles at the start, then looks for marks', async (t) => {
  const { loop, calls } = world(t);
  loop.start();
  await until('two looks', () => calls.length >= 3);
  assert.deepEqual(calls.slice(0, 3), ['start', 'look', 'look']);
});

test('a start that fails is tried again, and the reason stands until it works', async (t) => {
  const { loop, calls, state } = world(t);
  state.problem = 'the folder does not parse';
  loop.start();
  await until('three tries', () => calls.length >= 3);
  assert.deepEqual(new Set(calls), new Set(['start']));
  assert.equal(loop.problem, 'the folder does not parse');
  state.problem = null;
  await until('it works', () => loop.problem === null);
  await until('it goes on with looks', () => calls.includes('look'));
});

test('a change is not kept waiting by the backoff of what failed before', async (t) => {
  const { loop, calls, state } = world(t, { ...QUICK, lookMs: NEVER, retry: { leastMs: NEVER, mostMs: NEVER } });
  state.problem = 'no';
  loop.start();
  await until('it failed', () => loop.problem !== null);
  state.problem = null;
  loop.changed('folder');
  await until('it works', () => loop.problem === null);
  assert.deepEqual(calls, ['start', 'folder']);
});

test('a change that comes while a try fails is looked at without a wait', async (t) => {
  const { loop, calls, state } = world(t, { ...QUICK, lookMs: NEVER, retry: { leastMs: NEVER, mostMs: NEVER } });
  state.problem = 'no';
  state.duringCall = () => {
    if (calls.length > 1) return;
    loop.changed('folder');
    queueMicrotask(() => (state.problem = null));
  };
  loop.start();
  await until('it works', () => calls.includes('folder') && loop.problem === null);
});

test('it reconciles when nothing has for a while', async (t) => {
  const { loop, calls } = world(t, { ...QUICK, resyncMs: 50 });
  loop.start();
  await until('two resyncs', () => calls.filter((call) => call === 'resync').length >= 2);
});

test('a clock that is set back does not keep what failed from being tried again', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1_900_000_000_000 });
  const { loop, calls, state } = world(t);
  state.problem = 'no';
  state.duringCall = () => t.mock.timers.setTime(1_900_000_000_000 - calls.length * 3_600_000);
  loop.start();
  await until('three tries', () => calls.length >= 3);
});

test('a caller hears of its failure, which is remembered', async (t) => {
  const { loop, state } = world(t);
  assert.deepEqual(await loop.reconcile('http'), PUBLISHED);
  state.problem = 'no';
  await assert.rejects(loop.reconcile('http'), /^Error: no$/);
  assert.equal(loop.problem, 'no');
});

test('closing ends it', async (t) => {
  const { loop, calls } = world(t, { ...QUICK, lookMs: NEVER });
  loop.start();
  await until('it started', () => calls.length === 1);
  await loop.close();
});
