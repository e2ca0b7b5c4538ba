import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { FleetReporter, readFleet } from '../../functions/fleet.ts';
import type { Hello, Result } from '../../shared/protocol.ts';
import { faultyObjects, scratchObjects } from '../shared/version-store/scratch-store.ts';

const logger = pino({ level: 'silent' });

function hello(node: string): Hello {
  return {
    type: 'hello',
    node,
    roles: ['router'],
    sequence: 0,
    content: { router: null, 'service-proxy': null },
    tools: { haproxy: '2.6.12' },
  };
}

function result(sequence: number, change: Partial<Result> = {}): Result {
  const time = new Date(1_900_000_000_000 + sequence * 1000).toISOString();
  return {
    type: 'result',
    role: 'router',
    sequence,
    version: sequence,
    outcome: 'applied',
    how: 'reload',
    stage: null,
    message: '',
    durationMs: 5,
    time,
    ...change,
  };
}

test('what a node said last is read by everyone: hello, results of each role, its going', async (t) => {
  const objects = await scratchObjects(t);
  const reporter = new FleetReporter({ objects, replica: 'host-1', logger, now: () => new Date('2030-01-01T00:00:00Z') });
  reporter.connected(hello('node-a'));
  reporter.result('node-a', result(3));
  reporter.result('node-a', result(4, { role: 'service-proxy', outcome: 'failed', stage: 'apply', message: 'lock held' }));
  await reporter.close();
  const [node] = await readFleet(objects);
  assert.deepEqual(node, {
    node: 'node-a',
    tools: { haproxy: '2.6.12' },
    roles: {
      router: result(3),
      'service-proxy': result(4, { role: 'service-proxy', outcome: 'failed', stage: 'apply', message: 'lock held' }),
    },
    running: { router: result(3) },
    sequence: 3,
    version: 3,
    connectedTo: 'host-1',
    lastSeen: '2030-01-01T00:00:00.000Z',
  });
  reporter.disconnected('node-a');
  await reporter.flush();
  assert.equal((await readFleet(objects))[0]?.connectedTo, null);
});

test('what a role runs is known while newer content is refused', async (t) => {
  const objects = await scratchObjects(t);
  const reporter = new FleetReporter({ objects, replica: 'host-1', logger });
  const refused = result(4, { outcome: 'refused', how: null, stage: 'check', message: 'unknown keyword' });
  reporter.result('node-a', result(3));
  reporter.result('node-a', refused);
  await reporter.close();
  const [node] = await readFleet(objects);
  assert.deepEqual([node?.roles.router, node?.running.router, node?.version], [refused, result(3), 3]);
});

test('a node that moved to another replica: the newest word stands, the newest result of each role too', async (t) => {
  const objects = await scratchObjects(t);
  let now = 1_900_000_000_000;
  const clock = (): Date => new Date(now);
  const [first, second] = ['a', 'b'].map((replica) => new FleetReporter({ objects, replica, logger, now: clock }));
  assert.ok(first !== undefined && second !== undefined);
  first.connected(hello('node-a'));
  first.result('node-a', result(7));
  now += 1000;
  second.connected(hello('node-a'));
  second.connected(hello('node-b'));
  await Promise.all([first.flush(), second.flush()]);
  const fleet = await readFleet(objects);
  assert.deepEqual(
    fleet.map(({ node, connectedTo, sequence }) => [node, connectedTo, sequence]),
    [
      ['node-a', 'b', 7],
      ['node-b', 'b', 0],
    ],
  );
});

test('reports within the interval are one write; nothing new writes nothing', async (t) => {
  const objects = faultyObjects(await scratchObjects(t), { at: 0, when: 'before' });
  const reporter = new FleetReporter({ objects, replica: 'r', logger, intervalMs: 20 });
  for (let sequence = 1; sequence <= 50; sequence += 1) reporter.result('node-a', result(sequence));
  for (let waited = 0; objects.writes.length === 0 && waited < 500; waited += 1) await sleep(10);
  await reporter.flush();
  await reporter.close();
  assert.deepEqual(objects.writes, ['fleet/r.json']);
  assert.equal((await readFleet(objects))[0]?.sequence, 50);
});

test('a store that refuses loses no report: the next write has it; an unreadable one hides no other', async (t) => {
  const objects = faultyObjects(await scratchObjects(t), { at: 1, when: 'before' });
  const reporter = new FleetReporter({ objects, replica: 'r', logger });
  reporter.result('node-a', result(1));
  await reporter.flush();
  assert.deepEqual(await readFleet(objects), []);
  await reporter.flush();
  await objects.put('fleet/odd.json', Buffer.from('{'));
  assert.deepEqual(
    (await readFleet(objects)).map(({ node, version }) => [node, version]),
    [['node-a', 1]],
  );
});
