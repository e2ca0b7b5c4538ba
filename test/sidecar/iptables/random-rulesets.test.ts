import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { NodeRules } from '../../../sidecar/iptables/node-rules.ts';
import { BACK_ENDS, type BackEnd } from '../../../sidecar/iptables/tool.ts';
import { Namespace, namespacesMissing } from '../../end-to-end/namespace.ts';
import { never, quiet, removeNamespace, type Rulesets, rulesetsOf, runIn, savedRules, settleOn, type TestService } from './rulesets.ts';
import { cases } from '../../fixtures/cases.ts';

const skip = await namespacesMissing();

const RUNS: Readonly<Record<BackEnd, number>> = { nft: cases(30, 200), legacy: cases(10, 60) };

const last = fc.integer({ min: 1, max: 9 });
const service = fc.record({
  name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
  six: fc.boolean(),
  protocol: fc.constantFrom('TCP', 'UDP'),
  address: last,
  endpoints: fc.uniqueArray(last, { maxLength: 4 }),
});
const services = fc
  .uniqueArray(service, { maxLength: 8, selector: ({ name, protocol }) => `${name}/${protocol}` })
  .map((found) => found.map(testService));

function testService({ name, six, protocol, address, endpoints }: typeof service extends fc.Arbitrary<infer T> ? T : never): TestService {
  const key = `ns/${name}:${protocol.toLowerCase()}`;
  return six
    ? { key, protocol, address: `fd00:30::${address}`, endpoints: endpoints.map((end) => `[fd00:180::${end}]:8080`) }
    : { key, protocol, address: `172.30.0.${address}`, endpoints: endpoints.map((end) => `10.180.0.${end}:8080`) };
}

async function writeInNew(backEnd: BackEnd, sequence: readonly Rulesets[]): Promise<{ saved: string; hows: string[]; repaired: string[] }> {
  const namespace = await Namespace.create(`random-${backEnd}`);
  try {
    if (backEnd === 'legacy') await settleOn(namespace, backEnd);
    const rules = new NodeRules({ run: runIn(namespace), logger: quiet });
    const hows: string[] = [];
    for (const rulesets of sequence) hows.push((await rules.write(rulesets, never)).how);
    const repaired = await rules.repair(never);
    return { saved: await savedRules(namespace, backEnd), hows, repaired };
  } finally {
    await removeNamespace(namespace);
  }
}

for (const backEnd of BACK_ENDS) {
  test(`${backEnd}: from any ruleset to any other by changed chains is as a full load of the other`, { skip }, async () => {
    await fc.assert(
      fc.asyncProperty(services, services, async (a, b) => {
        const sequences = [[rulesetsOf(a), rulesetsOf(b)], [rulesetsOf(b)]];
        const [stepped, loaded] = await Promise.all(sequences.map((sequence) => writeInNew(backEnd, sequence)));
        assert.ok(stepped !== undefined && loaded !== undefined);
        assert.equal(stepped.saved, loaded.saved);
        assert.notEqual(stepped.hows[1], 'restore');
        assert.deepEqual([stepped.repaired, loaded.repaired], [[], []]);
      }),
      { numRuns: RUNS[backEnd], endOnFailure: true },
    );
  });
}
