import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ConntrackCleaner } from '../../../sidecar/iptables/conntrack.ts';
import { NodeRules } from '../../../sidecar/iptables/node-rules.ts';
import { BACK_ENDS } from '../../../sidecar/iptables/tool.ts';
import { runProgram } from '../../../sidecar/run-program.ts';
import { type Namespace, namespacesMissing, type Reply } from '../../end-to-end/namespace.ts';
import { namespaceFor, never, quiet, rulesetsOf, runIn, settleOn, type TestService } from './rulesets.ts';

const skip = await namespacesMissing();
const conntrackMissing = await runProgram(['conntrack', '--version']).then(
  () => false as const,
  () => 'needs the program conntrack',
);

const SERVICE = '172.30.0.40';

interface Cluster {
  readonly node: Namespace;
  readonly client: Namespace;
}

/** A node with two pods, 10.180.0.1 and 10.180.0.2, that answer on TCP 80 and UDP 53, and a client beside it. */
async function clusterOf(t: TestContext): Promise<Cluster> {
  const node = await namespaceFor(t, 'node');
  const client = await namespaceFor(t, 'client');
  await node.becomeNode('192.168.0.2');
  await node.linkPeer(client, '203.0.113.2');
  for (const address of ['10.180.0.1', '10.180.0.2']) {
    const pod = await namespaceFor(t, 'pod');
    await node.linkPeer(pod, address);
    await pod.listen('tcp', address, 80);
    await pod.listen('udp', address, 53);
  }
  return { node, client };
}

function serverOf(reply: Reply): string {
  return 'error' in reply ? reply.error : reply.server;
}

for (const backEnd of BACK_ENDS) {
  test(`${backEnd}: while rules change, connections to an unchanged service all succeed`, { skip }, async (t) => {
    const { node, client } = await clusterOf(t);
    if (backEnd === 'legacy') await settleOn(node, backEnd);
    const steady: TestService = { key: 'ns/steady:http', address: SERVICE, endpoints: ['10.180.0.1:80'] };
    const others = (round: number): TestService[] =>
      [1, 2, 3, 4, 5].map((n) => ({
        key: `ns/other-${n}:http`,
        address: `172.30.0.${n}`,
        endpoints: (n + round) % 3 === 0 ? [] : [`10.180.9.${round}:80`, `10.180.9.${n}:80`],
      }));
    const newRules = (): NodeRules => new NodeRules({ run: runIn(node), logger: quiet });
    let rules = newRules();
    await rules.write(rulesetsOf([steady, ...others(0)]), never);

    const changing = new AbortController();
    const answers = new Map<string, number>();
    const asking = (async () => {
      while (!changing.signal.aborted) {
        const answer = serverOf(await client.ask({ protocol: 'tcp', address: SERVICE, port: 80 }));
        answers.set(answer, (answers.get(answer) ?? 0) + 1);
      }
    })();
    for (let round = 1; round <= 15; round++) {
      if (round % 5 === 0) rules = newRules();
      await rules.write(rulesetsOf([steady, ...others(round)]), never);
    }
    changing.abort();
    await asking;
    assert.deepEqual([...answers.keys()], ['10.180.0.1:80']);
    assert.ok((answers.get('10.180.0.1:80') ?? 0) > 15);
  });
}

test('a UDP client that keeps its port follows the endpoints', { skip: skip || conntrackMissing }, async (t) => {
  const { node, client } = await clusterOf(t);
  const run = runIn(node);
  const rules = new NodeRules({ run, logger: quiet });
  const cleaner = new ConntrackCleaner(run, quiet);
  const ask = async (): Promise<string> =>
    serverOf(await client.ask({ protocol: 'udp', address: SERVICE, port: 53, fromPort: 5353, timeoutMs: 500 }));
  const serve = async (endpoints: readonly string[], options: { readonly clean: boolean }): Promise<void> => {
    await rules.write(rulesetsOf([{ key: 'ns/dns:dns', protocol: 'UDP', address: SERVICE, port: 53, endpoints }]), never);
    cleaner.committed(new Map([[`${SERVICE}:53`, endpoints]]));
    if (options.clean) await cleaner.clean(never);
  };

  await serve(['10.180.0.1:53'], { clean: true });
  assert.equal(await ask(), '10.180.0.1:53');
  await serve(['10.180.0.2:53'], { clean: false });
  assert.equal(await ask(), '10.180.0.1:53', 'the kernel keeps the flow: without this the test proves nothing');
  await cleaner.clean(never);
  assert.equal(await ask(), '10.180.0.2:53');

  await rules.write(rulesetsOf([]), never);
  cleaner.committed(new Map());
  await cleaner.clean(never);
  assert.notEqual(await ask(), '10.180.0.2:53');

  await serve(['10.180.0.1:53'], { clean: true });
  assert.equal(await ask(), '10.180.0.1:53');
});
