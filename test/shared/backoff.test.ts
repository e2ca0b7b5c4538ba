import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as check, double, integer, property } from 'fast-check';
import { backoffMs } from '../../shared/backoff.ts';

const RANGE = { leastMs: 200, mostMs: 10_000 };

test('waits double from the least to the most', () => {
  assert.deepEqual(
    [1, 2, 3, 6, 7, 50, 5_000].map((failures) => backoffMs(failures, RANGE, 0.999_999)),
    [200, 400, 800, 6_400, 10_000, 10_000, 10_000],
  );
});

test('jitter takes away at most half, and nothing below the least', () => {
  check(
    property(integer({ min: 1, max: 100 }), double({ min: 0, max: 0.999, noNaN: true }), (failures, random) => {
      const whole = backoffMs(failures, RANGE, 0.999_999);
      const ms = backoffMs(failures, RANGE, random);
      assert.ok(ms >= Math.max(200, whole / 2 - 1) && ms <= whole);
    }),
  );
});
