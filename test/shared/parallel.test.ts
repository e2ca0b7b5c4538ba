import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mapParallel } from '../../shared/parallel.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('results stand in the order of the items, with no more than the limit under way', async () => {
  let under = 0;
  let most = 0;
  const results = await mapParallel([5, 1, 4, 0, 3, 2], 3, async (item) => {
    under += 1;
    most = Math.max(most, under);
    for (let turns = 0; turns < item; turns += 1) await turn();
    under -= 1;
    return item * 10;
  });
  assert.deepEqual(results, [50, 10, 40, 0, 30, 20]);
  assert.equal(most, 3);
  assert.deepEqual(await mapParallel([], 3, () => assert.fail()), []);
});

test('the first failure is thrown after what was under way has ended, and nothing more is started', async () => {
  const ended: number[] = [];
  const started: number[] = [];
  const run = mapParallel([0, 1, 2, 3, 4, 5], 2, async (item) => {
    started.push(item);
    if (item === 1) throw new Error('one');
    for (let turns = 0; turns < 5; turns += 1) await turn();
    ended.push(item);
  });
  await assert.rejects(run, { message: 'one' });
  assert.deepEqual(started, [0, 1]);
  assert.deepEqual(ended, [0]);
});
