import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { NodeRules } from '../../../sidecar/iptables/node-rules.ts';
import { BACK_ENDS } from '../../../sidecar/iptables/tool.ts';
import { runProgram } from '../../../sidecar/run-program.ts';
import { namespacesMissing } from '../../end-to-end/namespace.ts';
import { namespaceFor, never, quiet, rulesetsOf, runIn, savedRules, settleOn, type TestService } from './rulesets.ts';

const skip = await namespacesMissing();
const writer = fileURLToPath(new URL('killed-writer.ts', import.meta.url));

const steady: TestService = { key: 'ns/steady:http', address: '172.30.0.40', endpoints: ['10.180.0.9:80'] };
const first: TestService[] = [
  steady,
  { key: 'ns/a:http', address: '172.30.0.41', endpoints: ['10.180.0.1:80', '10.180.0.2:80'] },
  { key: 'ns/b:http', address: '172.30.0.42', endpoints: [] },
  { key: 'ns/c:http', address: 'fd00:30::41', endpoints: ['[fd00:180::1]:80'] },
];
const second: TestService[] = [
  steady,
  { key: 'ns/a:http', address: '172.30.0.41', endpoints: [] },
  { key: 'ns/b:http', address: '172.30.0.42', endpoints: ['10.180.0.3:80'] },
  { key: 'ns/c:http', address: 'fd00:30::41', endpoints: ['[fd00:180::2]:80'] },
];
/** filter with both, nat, filter without the old; IPv6: nat. */
const COMMITS = 4;

for (const backEnd of BACK_ENDS) {
  test(`${backEnd}: after kill -9 between any two commits the next start comes to the target`, { skip }, async (t) => {
    const reference = await namespaceFor(t, 'unkilled');
    if (backEnd === 'legacy') await settleOn(reference, backEnd);
    await new NodeRules({ run: runIn(reference), logger: quiet }).write(rulesetsOf(second), never);
    const wanted = await savedRules(reference, backEnd);

    for (let commits = 0; commits < COMMITS; commits++) {
      const namespace = await namespaceFor(t, `killed-${commits}`);
      if (backEnd === 'legacy') await settleOn(namespace, backEnd);
      const order = { namespace: namespace.name, lock: namespace.environment['XTABLES_LOCKFILE'], first, second, commits };
      const killed = await runProgram([process.execPath, '--import', 'tsx', writer, JSON.stringify(order)]);
      assert.equal(killed.code, 137, killed.stderr);
      const between = await savedRules(namespace, backEnd);
      assert.notEqual(between, wanted);
      assert.match(between, /--to-destination 10.180.0.9:80/);

      const how = (await new NodeRules({ run: runIn(namespace), logger: quiet }).write(rulesetsOf(second), never)).how;
      assert.equal(how, 'restore');
      assert.equal(await savedRules(namespace, backEnd), wanted, `killed before commit ${commits}`);
    }
  });
}
