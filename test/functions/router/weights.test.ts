import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { serverWeights, type ServiceShare } from '../../../functions/router/weights.ts';

const services = (...pairs: readonly [weight: number, endpoints: number][]): ServiceShare[] =>
  pairs.map(([weight, endpoints]) => ({ weight, endpoints }));

const anyServices = fc.array(fc.record({ weight: fc.integer({ min: 0, max: 256 }), endpoints: fc.integer({ min: 0, max: 5_000 }) }), {
  maxLength: 6,
});

test('weights of services become weights of servers', () => {
  const table: readonly [ServiceShare[], number[]][] = [
    [services([50, 1], [50, 1]), [256, 256]],
    [services([25, 1], [75, 1]), [85, 256]],
    [services([50, 2], [50, 1]), [128, 256]],
    [services([100, 1]), [1]],
    [services([7, 30]), [1]],
    [services([0, 1]), [0]],
    [services([100, 2], [0, 3]), [1, 0]],
    [services([100, 2], [100, 0]), [1, 0]],
    [services([0, 2], [0, 1]), [0, 0]],
    [services([1, 5_000], [256, 1]), [1, 256]],
    [services([1, 1], [1, 3], [1, 2]), [256, 85, 128]],
    [[], []],
  ];
  for (const [shares, weights] of table) assert.deepEqual(serverWeights(shares), weights, JSON.stringify(shares));
});

test('they are the exact quotients, rounded down, for any services', () => {
  fc.assert(
    fc.property(anyServices, (shares) => {
      const taking = shares.filter(({ weight, endpoints }) => weight > 0 && endpoints > 0);
      const expected = shares.map(({ weight, endpoints }) => {
        if (weight === 0 || endpoints === 0) return 0;
        if (taking.length === 1) return 1;
        const quotients = taking.map(
          (most) => (256n * BigInt(weight) * BigInt(most.endpoints)) / (BigInt(endpoints) * BigInt(most.weight)),
        );
        const smallest = quotients.reduce((a, b) => (a < b ? a : b));
        return smallest < 1n ? 1 : Number(smallest);
      });
      assert.deepEqual(serverWeights(shares), expected);
    }),
  );
});

test('they stay within 0..256, 256 is given when services share traffic, and a share never becomes nothing', () => {
  fc.assert(
    fc.property(anyServices, (shares) => {
      const weights = serverWeights(shares);
      const taking = shares.flatMap(({ weight, endpoints }, index) => (weight > 0 && endpoints > 0 ? [weights[index] ?? 0] : []));
      assert.ok(taking.every((weight) => weight >= 1 && weight <= 256));
      if (taking.length > 1) assert.equal(Math.max(...taking), 256);
    }),
  );
});
