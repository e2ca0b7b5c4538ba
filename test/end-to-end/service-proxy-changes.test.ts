// While rules change: clients keep what they had, and follow at once where they must. Every change goes through the sidecar's role, as a
// plan, and after a restart as a full load.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressPort } from '../../shared/iptables/addresses.ts';
import type { Endpoint } from '../../shared/endpoint.ts';
import { runProgram } from '../../sidecar/run-program.ts';
import { endpoint, port, service, subset, terminating } from '../functions/iptables/cluster.ts';
import type { Question } from './namespace.ts';
import { type Addresses, onNodes, type Place, type ServiceNetwork } from './service-network.ts';

const conntrackMissing = await runProgram(['conntrack', '--version']).then(
  () => false as const,
  () => 'needs the program conntrack',
);

/** Services around the one that is looked at; the rules of each differ from round to round. */
function neighbours(
  at: Addresses,
  round: number,
): { services: ReturnType<typeof service>[]; endpoints: Record<string, ReturnType<typeof subset>[]> } {
  const address = (n: number): string => (at.family === 'IPv4' ? `172.30.0.${n}` : `fd00:30::${n}`);
  const pod = (n: number): string => (at.family === 'IPv4' ? `10.180.9.${n}` : `fd00:180:9::${n}`);
  const names = [1, 2, 3, 4, 5, 6].filter((n) => (n + round) % 4 !== 0);
  return {
    // The first shares the last byte of its address with `web`, and so the chain that leads to both.
    services: names.map((n) =>
      service({ name: `n${n}`, clusterIPs: [n === 1 ? at.zero : address(n)], ports: [{ name: 'p', port: 80, nodePort: 31_000 + n }] }),
    ),
    endpoints: Object.fromEntries(
      names.map((n) => [
        `ns1/n${n}`,
        (n + round) % 3 === 0 ? [] : [subset([port('p', 80)], [endpoint(pod(n)), endpoint(pod(round + 10))], at.family)],
      ]),
    ),
  };
}

onNodes('affinity over changes', (network, at) => {
  const targets = [8_201, 8_202, 8_203, 8_204, 8_205];
  const sticky = service({ clusterIPs: [at.web], sessionAffinity: 'ClientIP', ports: [{ name: 'p80', port: 80, nodePort: 30_080 }] });
  const serve = (ports: readonly number[]): Promise<void> =>
    network().serve([sticky], {
      'ns1/svc1': ports.map((target) => subset([port('p80', target)], [endpoint(at.near, { node: 'n1' })], at.family)),
    });
  const asked = async (): Promise<string> => {
    const reply = await network().ask('idle', at.web, 80);
    assert.ok('server' in reply, JSON.stringify(reply));
    return reply.server;
  };

  test('a client keeps its endpoint while others come and go, also over a restart of the sidecar', async () => {
    await Promise.all(targets.map((target) => network().at('near').listen('tcp', at.near, target)));
    await serve(targets.slice(0, 3));
    const first = await asked();
    const own = targets.find((target) => addressPort(at.near, target) === first);
    assert.ok(own !== undefined);
    const others = targets.filter((target) => target !== own);
    const always = async (when: string): Promise<void> => {
      // By chance alone 35 answers agree in one of 2^35 cases.
      for (let again = 0; again < 5; again++) assert.equal(await asked(), first, when);
    };
    await always('before any change');
    for (const [round, count] of [4, 2, 3, 1, 4].entries()) {
      await serve([...others.slice(0, count), own]);
      await always(`round ${round}`);
    }
    await network().restartSidecar();
    await serve([own, ...others.slice(0, 2)]);
    await always('restarted');
    await serve(others.slice(0, 2));
    assert.notEqual(await asked(), first, 'gone');
  });
});

onNodes('UDP over changes', (network, at) => {
  const service53 = service({
    type: 'NodePort',
    clusterIPs: [at.web],
    externalIPs: [at.external],
    ports: [{ name: 'dns', port: 53, protocol: 'UDP', nodePort: 30_053 }],
  });
  const near = endpoint(at.near, { node: 'n1' });
  const far = endpoint(at.far, { node: 'n2' });
  const serve = (...endpoints: readonly Endpoint[]): Promise<void> =>
    network().serve([service53], { 'ns1/svc1': [subset([port('dns', 53, 'UDP')], endpoints, at.family)] }, { localhostNodePorts: true });
  const doors: readonly (readonly [place: Place, address: string, port: number, fromPort: number])[] = [
    ['idle', at.web, 53, 4_001],
    ['client', at.external, 53, 4_002],
    ['client', at.node, 30_053, 4_003],
    ['client', at.node2, 30_053, 4_004],
    ['client', at.unknown, 30_053, 4_005],
    ['node', at.web, 53, 4_006],
    ...(at.family === 'IPv4' ? [['node', '127.0.0.1', 30_053, 4_007] as const] : []),
  ];
  /** One datagram through each door, always from the same port: what it reached. */
  const datagrams = (timeoutMs = 3_000): Promise<string[]> =>
    Promise.all(
      doors.map(async ([place, address, number, fromPort]) => {
        const from: Partial<Question> = { protocol: 'udp', fromPort, timeoutMs };
        const reply = await network().ask(place, address, number, from);
        return 'server' in reply ? reply.server : reply.error;
      }),
    );
  const sendUntil = async (ended: AbortSignal): Promise<void> => {
    // The answer to what is on its way while its flow is deleted is lost.
    while (!ended.aborted) await datagrams(300);
  };
  const eachSays = (answer: string): string[] => doors.map(() => answer);

  test('the first datagram after the confirmation goes to the new endpoint', { skip: conntrackMissing }, async () => {
    const [nearby, faraway] = [eachSays(addressPort(at.near, 53)), eachSays(addressPort(at.far, 53))];
    await network().serve([], {});
    await datagrams();
    await serve(near);
    assert.deepEqual(await datagrams(), nearby, 'from no service to one endpoint');
    const confirmed = new AbortController();
    const meanwhile = sendUntil(confirmed.signal);
    await serve(far);
    confirmed.abort();
    await meanwhile;
    assert.deepEqual(await datagrams(), faraway, 'from one endpoint to another, under traffic');
    await serve();
    assert.deepEqual(await datagrams(), eachSays('ECONNREFUSED'), 'from one endpoint to none');
    await serve(near);
    assert.deepEqual(await datagrams(), nearby, 'from none to one');
    await serve(near, far);
    assert.deepEqual(await datagrams(), nearby, 'a flow to an endpoint that still serves stays');
    await serve(terminating(at.near, { node: 'n1' }), far);
    assert.deepEqual(await datagrams(), nearby, 'while it terminates too');
    await network().restartSidecar();
    await serve(far);
    assert.deepEqual(await datagrams(), faraway, 'after a restart of the sidecar');
    await network().restartSidecar();
    await network().serve([], {});
    const after = await datagrams();
    assert.ok(!after.includes(faraway[0] ?? ''), `deleted while no sidecar ran: ${after.join()}`);
  });
});

onNodes('steady traffic over changes', (network, at) => {
  test('connections and datagrams to an unchanged service all arrive while others change and while everything is loaded anew', async () => {
    const steady = service({
      name: 'steady',
      clusterIPs: [at.web],
      ports: [
        { name: 'p80', port: 80, nodePort: 30_080 },
        { name: 'dns', port: 53, protocol: 'UDP' },
      ],
    });
    const one = subset([port('p80', 80), port('dns', 53, 'UDP')], [endpoint(at.near, { node: 'n1' })], at.family);
    const round = async (number: number): Promise<void> => {
      const { services, endpoints } = neighbours(at, number);
      await network().serve([steady, ...services], { ...endpoints, 'ns1/steady': [one] });
    };
    await round(0);
    const ended = new AbortController();
    const flows = [
      askUntil(network(), ended.signal, 'idle', at.web, 80, {}),
      askUntil(network(), ended.signal, 'client', at.node, 30_080, {}),
      askUntil(network(), ended.signal, 'idle', at.web, 53, { protocol: 'udp', fromPort: 4_100 }),
    ];
    for (let number = 1; number <= 12; number++) {
      if (number % 4 === 0) await network().restartSidecar();
      await round(number);
    }
    ended.abort();
    for (const [index, answers] of (await Promise.all(flows)).entries()) {
      assert.deepEqual([...answers.keys()], [addressPort(at.near, index === 2 ? 53 : 80)]);
      assert.ok([...answers.values()].every((count) => count > 12));
    }
  });
});

async function askUntil(
  network: ServiceNetwork,
  ended: AbortSignal,
  place: Place,
  address: string,
  number: number,
  more: Partial<Question>,
): Promise<Map<string, number>> {
  const answers = new Map<string, number>();
  while (!ended.aborted) {
    const reply = await network.ask(place, address, number, more);
    const answer = 'server' in reply ? reply.server : reply.error;
    answers.set(answer, (answers.get(answer) ?? 0) + 1);
  }
  return answers;
}
