import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Head } from '../../shared/head.ts';
import type { Result } from '../../shared/protocol.ts';
import type { KeptContent, RoleRecord } from '../../sidecar/last-known-good.ts';
import { type Failure, nextStep, standingRefusal } from '../../sidecar/next-target.ts';
import { MemoryStore, type Publication } from '../fixtures/memory-store.ts';

const EMPTY: RoleRecord = { wanted: null, applied: null, refused: [] };
const REFUSAL: Result = {
  type: 'result',
  role: 'router',
  sequence: 1,
  version: 1,
  outcome: 'refused',
  how: null,
  stage: 'check',
  message: 'no',
  durationMs: 1,
  time: '2025-01-01T00:00:00.000Z',
};

const store = new MemoryStore();
const content = (text: string, publication?: Publication): KeptContent => ({
  head: store.publish({ 'router/a': text }, publication),
  files: {},
});
const digest = ({ head }: KeptContent): string => head.target.content.router;
const refused = (head: Head) => ({ head, result: REFUSAL });

const [one, two] = [content('one'), content('two')];
const idle = { running: null, settled: true, failures: new Map<string, Failure>() };

test('nothing wanted: nothing to do', () => {
  assert.deepEqual(nextStep('router', EMPTY, idle, 0), { do: 'wait', until: null });
});

test('wanted content is applied, and once it runs there is nothing to do', () => {
  const record = { ...EMPTY, wanted: two, applied: one };
  assert.deepEqual(nextStep('router', record, idle, 0), { do: 'apply', kept: two });
  assert.deepEqual(nextStep('router', record, { ...idle, running: digest(one) }, 0), { do: 'apply', kept: two });
  assert.deepEqual(nextStep('router', record, { ...idle, running: digest(two) }, 0), { do: 'wait', until: null });
});

test('refused content is not applied; what was applied last comes up instead, and nothing replaces what runs', () => {
  const record = { wanted: two, applied: one, refused: [refused(two.head)] };
  assert.deepEqual(nextStep('router', record, idle, 0), { do: 'apply', kept: one });
  assert.deepEqual(nextStep('router', record, { ...idle, running: digest(one) }, 0), { do: 'wait', until: null });
});

test('content that failed waits for its time, and what was applied last comes up meanwhile', () => {
  const record = { ...EMPTY, wanted: two, applied: one };
  const failures = new Map([[digest(two), { count: 1, retryAt: 100 }]]);
  assert.deepEqual(nextStep('router', record, { running: null, settled: true, failures }, 50), { do: 'apply', kept: one });
  assert.deepEqual(nextStep('router', record, { running: digest(one), settled: true, failures }, 50), { do: 'wait', until: 100 });
  assert.deepEqual(nextStep('router', record, { running: digest(one), settled: true, failures }, 100), { do: 'apply', kept: two });
  failures.set(digest(one), { count: 1, retryAt: 80 });
  assert.deepEqual(nextStep('router', record, { running: null, settled: true, failures }, 50), { do: 'wait', until: 80 });
});

test('after a failure even what ran before is applied again', () => {
  const record = { ...EMPTY, wanted: one, applied: one };
  const progress = { ...idle, running: digest(one) };
  assert.deepEqual(nextStep('router', record, progress, 0), { do: 'wait', until: null });
  assert.deepEqual(nextStep('router', record, { ...progress, settled: false }, 0), { do: 'apply', kept: one });
});

test('a refusal stands while the reconciler moves the head, and ends with a move by hand', () => {
  const record = { ...EMPTY, refused: [refused(two.head)] };
  assert.notEqual(standingRefusal('router', record, two.head), null);
  assert.notEqual(standingRefusal('router', record, content('two').head), null);
  assert.equal(standingRefusal('router', record, content('other').head), null);
  const byHand = content('two', { author: 'someone' });
  assert.equal(standingRefusal('router', record, byHand.head), null);
  const pinned = content('two', { pin: { version: 2, roles: ['router'], freeze: false, author: 'operator', reason: 'because' } });
  assert.equal(standingRefusal('router', record, pinned.head), null, 'the move itself was missed, its pin shows it');
  const again = { ...EMPTY, refused: [refused(byHand.head)] };
  assert.notEqual(standingRefusal('router', again, byHand.head), null, 'one move is one try');
});
