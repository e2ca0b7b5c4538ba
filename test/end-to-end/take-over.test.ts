// A node that kube-proxy served becomes ours, and kube-proxy's again, under traffic: new connections all the time, connections that last,
// and clients that are bound to their endpoint. Nothing may be lost, and nothing stale may stay.

import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import type { Service } from '../../functions/cluster/objects.ts';
import { digestOf } from '../../shared/digest.ts';
import { FAMILIES, type Family } from '../../shared/endpoint.ts';
import { addressPort } from '../../shared/iptables/addresses.ts';
import { iptablesRole } from '../../sidecar/iptables/apply.ts';
import { cleanupIptables } from '../../sidecar/iptables/cleanup.ts';
import { BACK_ENDS } from '../../sidecar/iptables/tool.ts';
import type { RoleTarget } from '../../sidecar/role.ts';
import {
  CANARIES,
  kubeletRules,
  kubeProxyStart,
  kubeProxySync,
  type KubeProxyService,
  outdatedRules,
} from '../fixtures/kube-proxy-rules.ts';
import { until } from '../fixtures/poll.ts';
import { endpoint, endpointsOf, node as clusterNode, port, proxyFiles, service, state, subset } from '../functions/iptables/cluster.ts';
import { namespaceFor, never, quiet, runIn, savedRules } from '../sidecar/iptables/rulesets.ts';
import { type Namespace, namespacesMissing, type Question } from './namespace.ts';

const skip = await namespacesMissing();

/** Where everything is, in one family. */
interface Places {
  readonly node: string;
  readonly client: string;
  readonly pods: readonly [string, string];
  /** Cluster IPs. */
  readonly web: string;
  readonly sticky: string;
  readonly echo: string;
  readonly empty: string;
}

const PLACES: Readonly<Record<Family, Places>> = {
  IPv4: {
    node: '192.168.0.2',
    client: '203.0.113.2',
    pods: ['10.180.0.1', '10.180.2.1'],
    web: '172.30.0.41',
    sticky: '172.30.0.42',
    echo: '172.30.0.43',
    empty: '172.30.0.44',
  },
  IPv6: {
    node: 'fd00:192::2',
    client: 'fd00:203::2',
    pods: ['fd00:180::1', 'fd00:180::2:1'],
    web: 'fd00:30::29',
    sticky: 'fd00:30::42',
    echo: 'fd00:30::43',
    empty: 'fd00:30::44',
  },
};
const NODE_PORT = 30_080;
const ECHO_PORT = 9000;
const AFFINITY_SECONDS = 600;
/** Answers that each kind of traffic gets between one step and the next. */
const ENOUGH = 25;

function servicesAt({ web, sticky, echo, empty }: Places): Service[] {
  const http = { name: 'http', port: 80 };
  return [
    service({ name: 'web', type: 'NodePort', clusterIPs: [web], ports: [{ ...http, nodePort: NODE_PORT }] }),
    service({ name: 'sticky', clusterIPs: [sticky], sessionAffinity: 'ClientIP', affinityTimeout: AFFINITY_SECONDS, ports: [http] }),
    service({ name: 'echo', clusterIPs: [echo], ports: [{ name: 'echo', port: ECHO_PORT }] }),
    service({ name: 'empty', clusterIPs: [empty], ports: [http] }),
  ];
}

/** The same services as kube-proxy sees them. */
function asKubeProxy(places: Places): KubeProxyService[] {
  return servicesAt(places).flatMap(({ meta, clusterIPs, ports, sessionAffinity }) =>
    ports.map(({ name, port: number, nodePort }) => ({
      key: `${meta.namespace}/${meta.name}:${name}`,
      clusterIP: clusterIPs[0] ?? '',
      port: number,
      nodePort,
      endpoints: meta.name === 'empty' ? [] : places.pods.map((pod) => addressPort(pod, number)),
      affinitySeconds: sessionAffinity === 'ClientIP' ? AFFINITY_SECONDS : null,
    })),
  );
}

function target(family: Family): RoleTarget {
  const places = PLACES[family];
  const pods = places.pods.map((address, index) => endpoint(address, { node: `n${index + 1}` }));
  const behind = (name: string, number: number) => [subset([port(name, number)], pods, family)];
  const endpoints = endpointsOf({ 'ns1/web': behind('http', 80), 'ns1/sticky': behind('http', 80), 'ns1/echo': behind('echo', ECHO_PORT) });
  const nodes = [clusterNode('n1', { addresses: [{ type: 'InternalIP', address: places.node }] })];
  const { files } = proxyFiles(state(servicesAt(places), endpoints, nodes), { clusterCIDRs: ['10.0.0.0/8', 'fd00:180::/32'] });
  return { version: 1, sequence: 1, content: digestOf(family), movedAt: 0, files };
}

interface Site {
  readonly node: Namespace;
  readonly client: Namespace;
}

async function siteOf(t: TestContext, places: Places): Promise<Site> {
  const node = await namespaceFor(t, 'node');
  const client = await namespaceFor(t, 'client');
  await node.becomeNode(places.node);
  await node.linkPeer(client, places.client);
  for (const address of places.pods) {
    const pod = await namespaceFor(t, 'pod');
    await node.linkPeer(pod, address);
    await pod.listen('tcp', address, 80);
    await opened(longConnection(pod, 'serve', address, ECHO_PORT));
  }
  await node.ip('route', 'add', 'default', 'via', places.pods[0], 'src', places.node);
  return { node, client };
}

function longConnection(namespace: Namespace, action: 'serve' | 'hold', address: string, number: number): ChildProcess {
  const script = fileURLToPath(new URL('../fixtures/long-connection.mjs', import.meta.url));
  return namespace.spawn(process.execPath, [script, action, address, String(number)]);
}

async function nextWord({ stdout }: ChildProcess): Promise<string> {
  if (stdout === null) throw new Error('no standard output');
  const [word] = await once(stdout, 'data');
  return String(word).trim();
}

async function opened(connection: ChildProcess): Promise<ChildProcess> {
  assert.equal(await nextWord(connection), 'open');
  return connection;
}

/** Asks one question again and again, one connection each. */
class SteadyTraffic {
  readonly answers = new Map<string, number>();
  readonly #asking: Promise<void>;
  #ends = false;

  constructor(from: Namespace, question: Omit<Question, 'protocol'>) {
    this.#asking = this.#ask(from, question);
  }

  get total(): number {
    return [...this.answers.values()].reduce((sum, count) => sum + count, 0);
  }

  async end(): Promise<void> {
    this.#ends = true;
    await this.#asking;
  }

  async #ask(from: Namespace, question: Omit<Question, 'protocol'>): Promise<void> {
    while (!this.#ends) {
      const reply = await from.ask({ protocol: 'tcp', ...question });
      const answer = 'error' in reply ? reply.error : reply.server;
      this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1);
    }
  }
}

async function more(traffic: readonly SteadyTraffic[]): Promise<void> {
  const wanted = traffic.map(({ total }) => total + ENOUGH);
  await until('traffic goes on', () => traffic.every(({ total }, index) => total >= (wanted[index] ?? 0)));
}

/** Lines that a mangle, nat or filter table has of chains with this name. */
function linesOf(saved: string, chain: RegExp): string[] {
  return saved.split('\n').filter((line) => chain.test(line));
}

const CASES = BACK_ENDS.flatMap((backEnd) => FAMILIES.map((family) => ({ backEnd, family })));

for (const { backEnd, family } of CASES) {
  test(`${backEnd}, ${family}: kube-proxy's rules become ours and then its own again, and no connection is lost`, { skip }, async (t) => {
    const places = PLACES[family];
    const { node, client } = await siteOf(t, places);
    const restore = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backEnd}-restore`;
    const load = (text: string) => node.must(restore, ['--noflush', ...(backEnd === 'legacy' ? ['-w', '10'] : [])], text);
    const synced = kubeProxySync(asKubeProxy(places));
    for (const text of [kubeletRules(family), kubeProxyStart(), synced, outdatedRules(family)]) await load(text);
    const kubelets = /KUBE-(?:FIREWALL|KUBELET-CANARY|MARK-DROP|IPTABLES-HINT)/;
    const before = linesOf(await savedRules(node, backEnd), kubelets);
    assert.equal(before.length, family === 'IPv4' ? 11 : 10);

    const held = await Promise.all([client, node].map((from) => opened(longConnection(from, 'hold', places.echo, ECHO_PORT))));
    const spread = [
      new SteadyTraffic(client, { address: places.web, port: 80 }),
      new SteadyTraffic(client, { address: places.node, port: NODE_PORT }),
    ];
    const bound = new SteadyTraffic(client, { address: places.sticky, port: 80 });
    const traffic = [...spread, bound, new SteadyTraffic(node, { address: places.web, port: 80 })];
    await more(traffic);

    const logged: string[] = [];
    const logger = pino({ level: 'warn' }, { write: (line: string) => logged.push(line) });
    const findKubeProxy = async (): Promise<string> => '127.0.0.1:10249';
    const role = iptablesRole({ node: 'n1', logger, run: runIn(node), findKubeProxy });
    const { outcome, how, message } = await role.apply(target(family), never);
    assert.deepEqual([outcome, how, message], ['applied', 'restore', '']);
    await more(traffic);
    const saved = await savedRules(node, backEnd);
    assert.deepEqual(linesOf(saved, /KUBE-XLB-|KUBE-PROXY-CANARY|ABCDEFGHIJKLMNOP/), []);
    assert.deepEqual(linesOf(saved, kubelets), before);
    assert.match(saved, /^:KUBE-DISP-29 -$/m);
    const jumps = linesOf(saved, /^-A (?:INPUT|OUTPUT|FORWARD|PREROUTING|POSTROUTING) .*-j KUBE-(?!FIREWALL)/);
    assert.equal(jumps.length, 24, 'twelve of each family: kube-proxy wrote the same and none is doubled');
    assert.deepEqual(await role.repairDrift(never), { repaired: [] });
    assert.deepEqual(await client.ask({ protocol: 'tcp', address: places.empty, port: 80 }), { error: 'ECONNREFUSED' });

    await load(synced);
    await more(traffic);
    assert.notDeepEqual(await role.repairDrift(never), { repaired: [] }, 'a kube-proxy that still lives wrote its rules again');
    assert.equal(await savedRules(node, backEnd), saved);
    assert.equal(logged.length, 1);
    assert.match(logged[0] ?? '', /10249.*kube-proxy runs on this node and writes the same chains; stop it/);
    await role.close();
    assert.equal(await savedRules(node, backEnd), saved, 'a sidecar that stops leaves the rules');
    await more(traffic);

    const cleanUp = () => cleanupIptables({ logger: quiet, signal: never, kubeProxyRuns: true, run: runIn(node) });
    await assert.rejects(cleanUp(), { code: 'rules-in-use' });
    await load(CANARIES);
    await assert.rejects(cleanUp(), { code: 'rules-in-use' });
    assert.deepEqual(linesOf(await savedRules(node, backEnd), /KUBE-(?!PROXY-CANARY)/), linesOf(saved, /KUBE-/), 'nothing was removed');
    await load(synced);
    await more(traffic);
    const cleaned = await cleanUp();
    assert.ok(cleaned.chains > 0);
    assert.equal(cleaned.jumps, 12, 'those of the other family, where this kube-proxy does not serve');
    await more(traffic);
    const back = await savedRules(node, backEnd);
    assert.deepEqual(linesOf(back, /KUBE-(?:DISP-|NP-|NODEPORT-VERDICTS|MARK-OUTSIDE)/), []);
    assert.deepEqual(linesOf(back, kubelets), before);

    await Promise.all(traffic.map((each) => each.end()));
    for (const { answers } of traffic) {
      const strangers = [...answers.keys()].filter((server) => !places.pods.some((pod) => server === addressPort(pod, 80)));
      assert.deepEqual(strangers, [], 'every connection reached an endpoint');
    }
    for (const { answers } of spread) assert.equal(answers.size, 2, 'both endpoints answered');
    assert.equal(bound.answers.size, 1, 'affinity held');
    for (const connection of held) {
      connection.stdin?.end();
      assert.equal(await nextWord(connection), 'kept');
    }
  });
}
