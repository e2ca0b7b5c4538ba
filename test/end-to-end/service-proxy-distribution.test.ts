// Connections are spread evenly over endpoints: counted, and judged by a chi-squared test that fails by chance once in a million.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressPort } from '../../shared/iptables/addresses.ts';
import { endpoint, port, service, subset } from '../functions/iptables/cluster.ts';
import { onNodes, type Place, type ServiceNetwork } from './service-network.ts';

const CONNECTIONS = 2_000;
const AT_ONCE = 50;
const UNLIKELY = 1e-6;

/**
 * How likely an even choice is to give counts as uneven as these: the upper tail of the chi-squared distribution, whose sum is finite for
 * an even number of degrees of freedom, that is an odd number of endpoints.
 */
function likelihood(counts: readonly number[]): number {
  assert.equal(counts.length % 2, 1);
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  const half = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0) / 2;
  let term = Math.exp(-half);
  let sum = term;
  for (let i = 1; i < (counts.length - 1) / 2; i++) sum += term *= half / i;
  return sum;
}

async function countAnswers(network: ServiceNetwork, place: Place, address: string): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const asker = async (): Promise<void> => {
    for (let asked = 0; asked < CONNECTIONS / AT_ONCE; asked++) {
      const reply = await network.ask(place, address, 80, { timeoutMs: 20_000 });
      const answer = 'server' in reply ? reply.server : reply.error;
      counts.set(answer, (counts.get(answer) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, asker));
  return counts;
}

test('the judgement tells an even spread from an uneven one', () => {
  // 27.63 is the critical value of two degrees of freedom at 1e-6, 38.26 that of six.
  const atTwo = [667, 667 + 96, 667 - 96];
  assert.ok(Math.abs(likelihood(atTwo) - Math.exp(-(2 * 96 ** 2) / 667 / 2)) < 1e-12);
  assert.ok(likelihood([667, 667, 666]) > 0.99);
  assert.ok(likelihood([1000, 500, 500]) < UNLIKELY);
  assert.ok(likelihood([400, 267, 267, 267, 267, 266, 266]) < UNLIKELY);
  assert.ok(likelihood([300, 300, 300, 275, 275, 275, 275]) > UNLIKELY);
});

onNodes('distribution', (network, at) => {
  for (const count of [3, 7]) {
    test(`${CONNECTIONS} connections over ${count} endpoints`, async (t) => {
      // Endpoints of one address are told apart by their ports.
      const targets = Array.from({ length: count }, (_, index) => 8_100 + count * 10 + index);
      await Promise.all(targets.map((target) => network().at('near').listen('tcp', at.near, target)));
      const subsets = targets.map((target) => subset([port('p80', target)], [endpoint(at.near, { node: 'n1' })], at.family));
      await network().serve([service({ clusterIPs: [at.web] })], { 'ns1/svc1': subsets });
      const counts = await countAnswers(network(), 'idle', at.web);
      assert.deepEqual([...counts.keys()].sort(), targets.map((target) => addressPort(at.near, target)).sort());
      const p = likelihood([...counts.values()]);
      t.diagnostic(`counts ${[...counts.values()].join(', ')}: p = ${p.toPrecision(2)}`);
      assert.ok(p >= UNLIKELY, `p = ${p}`);
    });
  }
});
