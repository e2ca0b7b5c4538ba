import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { digestOf } from '../../../shared/digest.ts';
import { HeadgateError } from '../../../shared/error.ts';
import type { Files } from '../../../shared/files.ts';
import { PROXY_PATHS, type ProxyNode, type ProxyOptions, type ProxyService } from '../../../shared/iptables/service.ts';
import { shardEntries } from '../../../shared/shard.ts';
import { Metrics } from '../../../shared/prometheus.ts';
import type { RoleTarget } from '../../../sidecar/role.ts';
import type { RunProgram } from '../../../sidecar/run-program.ts';
import { iptablesRole } from '../../../sidecar/iptables/apply.ts';
import type { HealthCheckListeners } from '../../../sidecar/iptables/health-check-servers.ts';
import { BACK_ENDS } from '../../../sidecar/iptables/tool.ts';
import { namespacesMissing } from '../../end-to-end/namespace.ts';
import { namespaceFor, never, quiet, runIn, savedRules, settleOn } from './rulesets.ts';

const skip = await namespacesMissing();

const options: ProxyOptions = {
  clusterCIDRs: ['10.0.0.0/8', 'fd00:180::/32'],
  masqueradeAll: false,
  nodePortAddresses: null,
  localhostNodePorts: false,
  sparseComments: false,
};
const node: ProxyNode = { name: 'n1', internalIPs: ['192.168.0.2', 'fd00:192::2'], externalIPs: [], zone: 'z1' };

function service(name: string, fields: Partial<ProxyService> = {}): ProxyService {
  return {
    namespace: 'ns',
    name,
    families: ['IPv4'],
    ports: [],
    internalPolicy: 'Cluster',
    externalPolicy: 'Cluster',
    affinitySeconds: null,
    sourceRanges: null,
    healthCheckNodePort: 0,
    endpoints: [],
    ...fields,
  };
}

function port(fields: Partial<ProxyService['ports'][number]>): ProxyService['ports'][number] {
  return {
    name: 'p',
    protocol: 'TCP',
    port: 80,
    nodePort: 0,
    clusterIPs: [],
    externalIPs: [],
    loadBalancerIPs: [],
    ...fields,
  };
}

function endpoint(address: string, fields: Partial<ProxyService['endpoints'][number]> = {}): ProxyService['endpoints'][number] {
  return { address, ports: { p: 8080 }, ready: true, node: 'n2', hintZones: [], hintNodes: [], ...fields };
}

const plain = service('plain', {
  ports: [port({ clusterIPs: ['172.30.0.41'] })],
  endpoints: [endpoint('10.180.0.1'), endpoint('10.180.0.2')],
});
const everything: readonly ProxyService[] = [
  plain,
  service('dual', {
    families: ['IPv4', 'IPv6'],
    ports: [port({ clusterIPs: ['172.30.0.42', 'fd00:30::42'], nodePort: 30042 })],
    endpoints: [endpoint('10.180.0.3'), endpoint('fd00:180::3')],
  }),
  service('sticky', {
    affinitySeconds: 10800,
    ports: [port({ clusterIPs: ['172.30.0.43'] })],
    endpoints: [endpoint('10.180.0.4'), endpoint('10.180.0.5'), endpoint('10.180.0.6')],
  }),
  service('balanced', {
    externalPolicy: 'Local',
    internalPolicy: 'Local',
    healthCheckNodePort: 32000,
    sourceRanges: ['203.0.113.0/24', '192.168.0.0/16'],
    ports: [port({ clusterIPs: ['172.30.0.44'], nodePort: 30044, externalIPs: ['198.51.100.1'], loadBalancerIPs: ['198.51.100.2'] })],
    endpoints: [endpoint('10.180.0.7', { node: 'n1' }), endpoint('10.180.0.8')],
  }),
  service('away', {
    externalPolicy: 'Local',
    ports: [port({ clusterIPs: ['172.30.0.45'], nodePort: 30045 })],
    endpoints: [endpoint('10.180.0.9')],
  }),
  service('empty', { ports: [port({ clusterIPs: ['172.30.0.46'], nodePort: 30046, externalIPs: ['198.51.100.3'] })] }),
  service('dns', {
    ports: [port({ protocol: 'UDP', port: 53, clusterIPs: ['172.30.0.10'], nodePort: 30053 })],
    endpoints: [endpoint('10.180.0.53')],
  }),
];

function target(version: number, services: readonly ProxyService[], changed: Partial<ProxyOptions> = {}): RoleTarget {
  const files: Files = new Map([
    [PROXY_PATHS.options, JSON.stringify({ ...options, ...changed })],
    ...shardEntries(PROXY_PATHS.services, services, ({ namespace, name }) => `${namespace}/${name}`),
    ...shardEntries(PROXY_PATHS.nodes, [node], ({ name }) => name),
  ]);
  return { version, sequence: version, content: digestOf(JSON.stringify([...files])), movedAt: 0, files };
}

for (const backEnd of BACK_ENDS) {
  test(`${backEnd}: rules of every kind are applied, changed, and read back without drift`, { skip }, async (t) => {
    const namespace = await namespaceFor(t, 'role');
    if (backEnd === 'legacy') await settleOn(namespace, backEnd);
    const run = runIn(namespace);
    const role = iptablesRole({ node: 'n1', logger: quiet, run });
    assert.equal(await role.ready(), false);
    const { durationMs: _, ...outcome } = await role.apply(target(1, everything), never);
    assert.deepEqual(outcome, { outcome: 'applied', how: 'restore', stage: null, message: '' });
    assert.equal(await role.ready(), true);
    assert.deepEqual(await role.repairDrift(never), { repaired: [] });

    assert.equal((await role.apply(target(2, everything.slice(1)), never)).how, 'partial');
    assert.equal((await role.apply(target(3, everything.slice(1)), never)).how, 'unchanged');
    const restarted = iptablesRole({ node: 'n1', logger: quiet, run });
    assert.equal((await restarted.apply(target(3, everything.slice(1)), never)).how, 'restore');
    assert.deepEqual(await restarted.repairDrift(never), { repaired: [] });
    assert.match((await role.tools())['iptables'] ?? '', new RegExp(`^1\\.\\d+\\.\\d+ \\(${backEnd}\\)$`));
  });
}

test('content that cannot be composed is refused, and what ran before runs', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'role');
  const role = iptablesRole({ node: 'n1', logger: quiet, run: runIn(namespace) });
  await role.apply(target(1, [plain]), never);
  const before = await savedRules(namespace, 'nft');
  const { outcome, stage } = await role.apply({ ...target(2, []), files: new Map() }, never);
  assert.deepEqual([outcome, stage], ['refused', 'plan']);
  assert.equal(await savedRules(namespace, 'nft'), before);
});

test('rules that the tool does not take are refused in its words', { skip }, async (t) => {
  const role = await roleWith(t, (input) => input.replace('-j KUBE-SEP', '--no-such-option -j KUBE-SEP'));
  const { outcome, stage, message } = await role.apply(target(1, [plain]), never);
  assert.deepEqual([outcome, stage], ['refused', 'apply']);
  assert.match(message, /^iptables-nft-restore failed \(exit 2\): .*no-such-option.* \(line \d+: -A KUBE-SVC-.*\)$/);
});

test('a node without iptables is a failure that says what to install', async () => {
  const role = iptablesRole({ node: 'n1', logger: quiet, run: ([program = '']) => Promise.reject(missing(program)) });
  const { outcome, stage, message } = await role.apply(target(1, [plain]), never);
  assert.deepEqual([outcome, stage], ['failed', 'check']);
  assert.match(message, /install iptables/);
  assert.deepEqual(await role.repairDrift(never), { repaired: [] });
});

test('a node whose kernel does not filter IPv6 runs the IPv4 rules', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'role');
  const run = runIn(namespace);
  const without: RunProgram = (argv, given) => (argv[0]?.startsWith('ip6') === true ? run(['false']) : run(argv, given));
  const role = iptablesRole({ node: 'n1', logger: quiet, run: without });
  assert.equal((await role.apply(target(1, everything), never)).outcome, 'applied');
  assert.deepEqual(await role.repairDrift(never), { repaired: [] });
  const [ipv4 = '', ipv6 = ''] = (await savedRules(namespace, 'nft')).split('--- IPv6');
  assert.match(ipv4, /10\.180\.0\.3:8080/);
  assert.doesNotMatch(ipv6, /KUBE-/);
});

test('a node whose conntrack is liberal lets invalid packets through', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'role');
  const role = iptablesRole({ node: 'n1', logger: quiet, run: runIn(namespace) });
  await role.apply(target(1, [plain]), never);
  assert.match(await savedRules(namespace, 'nft'), /--ctstate INVALID -j DROP/);
  await namespace.must('tee', ['/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal'], '1');
  await role.apply(target(2, [plain]), never);
  assert.doesNotMatch(await savedRules(namespace, 'nft'), /--ctstate INVALID/);
});

test('route_localnet follows localhost node ports', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'role');
  const role = iptablesRole({ node: 'n1', logger: quiet, run: runIn(namespace) });
  const value = async (): Promise<string> => (await namespace.must('cat', ['/proc/sys/net/ipv4/conf/all/route_localnet'])).trim();
  await role.apply(target(1, everything), never);
  assert.equal(await value(), '0');
  await role.apply(target(2, everything, { localhostNodePorts: true }), never);
  assert.equal(await value(), '1');
  await role.apply(target(3, everything), never);
  assert.equal(await value(), '0');
});

test('health checks are answered once the rules are in, kept when a content fails, and end with the role', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'role');
  const shown: string[] = [];
  const healthChecks: HealthCheckListeners = {
    async show(checks) {
      const inPlace = /--dport 32000 -j ACCEPT/.test(await savedRules(namespace, 'nft'));
      shown.push(`${checks.map(({ port: at, name, localEndpoints }) => `${at} ${name} ${localEndpoints}`).join()} rules: ${inPlace}`);
    },
    async close() {
      shown.push('closed');
    },
  };
  const role = iptablesRole({ node: 'n1', logger: quiet, run: runIn(namespace), healthChecks });
  await role.apply(target(1, everything), never);
  assert.equal((await role.apply({ ...target(2, []), files: new Map() }, never)).outcome, 'refused');
  await role.apply(target(3, [plain]), never);
  await role.close();
  assert.deepEqual(shown, ['32000 balanced 1 rules: true', ' rules: false', 'closed']);
});

test('syncs and restores that fail are counted', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'role');
  const metrics = new Metrics();
  let broken = false;
  const run: RunProgram = (argv, given = {}) => {
    const breaks = broken && typeof given.input === 'string' && given.input.includes('-j KUBE-SEP');
    return runIn(namespace)(argv, breaks ? { ...given, input: given.input.replace('-j KUBE-SEP', '--no-such-option') } : given);
  };
  const role = iptablesRole({ node: 'n1', logger: quiet, run, metrics });
  await role.apply(target(1, [plain]), never);
  broken = true;
  assert.equal((await role.apply(target(2, everything), never)).outcome, 'refused');
  broken = false;
  assert.equal((await role.apply(target(3, everything), never)).outcome, 'applied');
  const text = metrics.text();
  assert.match(text, /^kubeproxy_sync_proxy_rules_duration_seconds_count 2$/m);
  assert.match(text, /^kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total 1$/m);
  // The changed chains, all of them, and the way back.
  assert.match(text, /^kubeproxy_sync_proxy_rules_iptables_restore_failures_total 3$/m);
  assert.match(text, /^kubeproxy_sync_proxy_rules_iptables_total\{table="nat"\} [1-9]\d+$/m);
});

test('UDP services that went while no sidecar ran are cleaned too', { skip }, async (t) => {
  const namespace = await namespaceFor(t, 'role');
  await iptablesRole({ node: 'n1', logger: quiet, run: runIn(namespace) }).apply(target(1, everything), never);
  const deleted: string[] = [];
  const run: RunProgram = (argv, given) => {
    if (argv[0] !== 'conntrack') return runIn(namespace)(argv, given);
    if (argv[1] === '-D') deleted.push(argv.join(' '));
    const flow = 'udp 17 29 src=10.1.0.1 dst=172.30.0.10 sport=4001 dport=53 src=10.180.0.53 dst=10.1.0.1 sport=8080 dport=4001 use=1';
    return Promise.resolve({ code: 0, stdout: argv.includes('ipv4') ? flow : '', stderr: '', truncated: false });
  };
  await iptablesRole({ node: 'n1', logger: quiet, run }).apply(target(2, [plain]), never);
  assert.deepEqual(deleted, [
    'conntrack -D -p udp -f ipv4 --orig-dst 172.30.0.10 --orig-port-dst 53 --reply-src 10.180.0.53 --reply-port-src 8080',
  ]);
});

/** A role on a new node whose input of iptables-restore is altered on the way. */
async function roleWith(t: TestContext, alter: (input: string) => string): Promise<ReturnType<typeof iptablesRole>> {
  const run = runIn(await namespaceFor(t, 'role'));
  const altered: RunProgram = (argv, given = {}) =>
    typeof given.input === 'string' ? run(argv, { ...given, input: alter(given.input) }) : run(argv, given);
  return iptablesRole({ node: 'n1', logger: quiet, run: altered });
}

function missing(program: string): HeadgateError {
  return new HeadgateError('program-missing', 'apply', `${program} is not installed`);
}
