// The service proxy on a node as its operators meet it: beside a kube-proxy, from empty tables with functions behind a cluster IP, watched,
// asked by load balancers, stopped and cleaned up.

import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { noHaproxy } from '../fixtures/run-haproxy.ts';
import type { StartedCommand } from './command.ts';
import { type Manifest, NODE, NODE_ADDRESS, route, service } from './manifests.ts';
import { namespacesMissing } from './namespace.ts';
import { FUNCTIONS_PORT, isCurrent, reported, SIDECAR_PORT, type WholeSystem, withSystem } from './whole-system.ts';

const skip = noHaproxy || (await namespacesMissing());

const HOST = 'web.example.test';
const CLUSTER_IP = '172.30.0.10';
const POD = '10.180.0.1';
const NEXT = '10.180.0.2';
const web = service('web', CLUSTER_IP, [POD]);

/** As far as anybody can tell from outside, a kube-proxy. */
async function kubeProxy(system: WholeSystem, port: number): Promise<StartedCommand> {
  const source = `require('http').createServer((_, r) => r.end('ok')).listen(${port}, '127.0.0.1', () => console.log('listens'))`;
  const started = system.start('kube-proxy', [process.execPath, '-e', source]);
  await system.until('kube-proxy answers', () => started.said.includes('listens'));
  return started;
}

async function rules(system: WholeSystem): Promise<string> {
  return (await Promise.all(['iptables-nft-save', 'ip6tables-nft-save'].map((program) => system.run(program)))).join('\n');
}

test('beside a kube-proxy the router runs, and the service proxy once kube-proxy is stopped', { skip }, () =>
  withSystem(async (system) => {
    await system.cluster(web, route('web', HOST, 'web'));
    await system.functions();
    const running = await kubeProxy(system, 10_249);
    const sidecar = system.sidecar();
    await system.untilAnswers(HOST, POD);
    const status = await system.untilStatus('the refusal is known', (seen) => reported(seen, 'service-proxy') !== undefined);
    const { outcome, stage, message } = reported(status, 'service-proxy') ?? {};
    assert.deepEqual([outcome, stage], ['failed', 'check']);
    assert.match(message ?? '', /^kube-proxy runs on this node \(127\.0\.0\.1:10249 answers\); stop it, or .* --take-over$/);
    assert.equal(await rules(system), '\n', 'no rule was written');
    await running.stop();
    await system.untilAnswers(CLUSTER_IP, POD);
    await system.untilStatus('both roles run', isCurrent);
    assert.equal(await sidecar.stop(), 0);
  }),
);

test('with an iptables that is too old the router runs, and the service proxy once there is a newer one', { skip }, () =>
  withSystem(async (system) => {
    await system.cluster(web, route('web', HOST, 'web'));
    await system.functions();
    const old = system.file('old');
    await mkdir(old);
    for (const name of ['iptables-nft-restore', 'iptables-legacy-restore']) {
      await writeFile(join(old, name), '#!/bin/sh\necho "iptables-restore v1.8.2"\n', { mode: 0o755 });
    }
    system.sidecar({ programs: old });
    await system.untilAnswers(HOST, POD);
    const status = await system.untilStatus('the failure is known', (seen) => reported(seen, 'service-proxy') !== undefined);
    const { outcome, stage, message } = reported(status, 'service-proxy') ?? {};
    assert.deepEqual([outcome, stage], ['failed', 'check']);
    assert.match(message ?? '', /^iptables 1\.8\.2 \(nft\) is too old; install iptables/);
    await rm(old, { recursive: true });
    await system.untilAnswers(CLUSTER_IP, POD);
  }),
);

test('a service proxy alone ends beside a kube-proxy, with one line that says why, unless it takes over', { skip }, () =>
  withSystem(async (system) => {
    await system.cluster(web);
    await system.functions();
    await kubeProxy(system, 10_256);
    const refused = system.sidecar({ roles: 'service-proxy' }).mayEnd();
    assert.equal(await refused.ended, 1);
    const lines = refused.said.split('\n').filter((line) => line !== '');
    assert.equal(lines.length, 1, refused.said);
    assert.match(lines[0] ?? '', /kube-proxy runs on this node \(127\.0\.0\.1:10256 answers\).*--take-over/);
    assert.equal(await rules(system), '\n');
    system.sidecar({ roles: 'service-proxy', flags: ['--take-over'] });
    await system.untilAnswers(CLUSTER_IP, POD);
  }),
);

test('a node comes up from empty tables although the functions are behind a cluster IP', { skip }, () =>
  withSystem(async (system) => {
    const [functions, own] = ['172.30.0.90', '10.180.7.7'];
    await system.cluster(web, serviceOf('functions', functions, own, { targetPort: FUNCTIONS_PORT }));
    await system.functions(own);
    assert.notEqual(await statusOf(system, functions, 80, '/healthz'), 200, 'nothing serves the cluster IP yet');
    // The namespace has no way to a name server: were a name looked up, nothing would come of it.
    system.sidecar({ roles: 'service-proxy', stream: `ws://${functions}/stream,ws://${own}:${FUNCTIONS_PORT}/stream` });
    await system.until('the cluster IP leads to the functions', async () => (await statusOf(system, functions, 80, '/healthz')) === 200);
    assert.equal(await system.answers(CLUSTER_IP), POD);
  }),
);

test('health checks, metrics, a stop that leaves the rules, and a clean-up', { skip }, () =>
  withSystem(async (system) => {
    const port = 32_100;
    const balanced = (pod: string, node: string): readonly Manifest[] =>
      serviceOf('balanced', '172.30.0.20', pod, {
        node,
        spec: { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: port },
      });
    const health = async (): Promise<string> => {
      const reply = await system.ask({ host: 'node', address: NODE_ADDRESS, port });
      if ('error' in reply) return reply.error;
      const { service: of, localEndpoints } = JSON.parse(reply.body);
      return `${reply.status} ${of.namespace}/${of.name} ${localEndpoints}`;
    };
    await system.cluster(web, balanced('10.180.0.5', NODE));
    await system.functions();
    const sidecar = system.sidecar({ roles: 'service-proxy' });
    await system.untilAnswers(CLUSTER_IP, POD);
    await system.until('the health check answers', async () => (await health()) === '200 shop/balanced 1');
    await system.cluster(service('web', CLUSTER_IP, [NEXT]), balanced('10.180.0.5', 'elsewhere'));
    await system.until('the endpoint is elsewhere', async () => (await health()) === '503 shop/balanced 0');

    const reply = await system.ask({ host: 'node', port: SIDECAR_PORT, path: '/metrics' });
    assert.ok(!('error' in reply), JSON.stringify(reply));
    assert.match(reply.body, /^kubeproxy_sync_full_proxy_rules_duration_seconds_count 1$/m);
    assert.match(reply.body, /^kubeproxy_sync_partial_proxy_rules_duration_seconds_count 1$/m);
    assert.match(reply.body, /^kubeproxy_network_programming_duration_seconds_count [12]$/m);
    assert.match(reply.body, /^headgate_sidecar_version\{role="service-proxy"\} 2$/m);

    const during = await system.cleanUp();
    assert.equal(during.code, 1, 'a sidecar would put the rules back');
    assert.match(during.stderr, /another sidecar serves the role service-proxy/);
    const before = await rules(system);
    assert.equal(await sidecar.stop(), 0);
    assert.doesNotMatch(await health(), /^\d{3} /, 'nothing listens any more');
    assert.equal(withoutCounters(await rules(system)), withoutCounters(before));
    assert.equal(await system.answers(CLUSTER_IP), NEXT);
    const cleaned = await system.cleanUp();
    assert.deepEqual([cleaned.code, cleaned.stderr], [0, '']);
    assert.match(cleaned.stdout, /^Removed \d+ chains and 24 jumps\.\n$/);
    assert.doesNotMatch(await rules(system), /KUBE-/);
  }),
);

/** A service on port 80 with one pod, on this node unless another is named. */
function serviceOf(
  name: string,
  clusterIP: string,
  pod: string,
  { targetPort = 8080, node = NODE, spec = {} }: { targetPort?: number; node?: string; spec?: Manifest } = {},
): readonly Manifest[] {
  const metadata = { namespace: 'shop', name };
  const ports = [{ name: 'http', port: 80, targetPort, protocol: 'TCP' }];
  return [
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { clusterIP, clusterIPs: [clusterIP], ports, ...spec } },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, name: `${name}-1`, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: targetPort, protocol: 'TCP' }],
      endpoints: [{ addresses: [pod], nodeName: node, conditions: { ready: true } }],
    },
  ];
}

async function statusOf(system: WholeSystem, address: string, port: number, path: string): Promise<number> {
  const reply = await system.ask({ host: 'functions', address, port, path });
  return 'error' in reply ? 0 : reply.status;
}

function withoutCounters(saved: string): string {
  return saved.replace(/^#.*$|\[\d+:\d+\]/gm, '');
}
