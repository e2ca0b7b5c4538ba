import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { CHAINS, endpointChain, serviceChain, serviceHash } from '../../../shared/iptables/chain-names.ts';
import { NodeRules } from '../../../sidecar/iptables/node-rules.ts';
import { BACK_ENDS, type BackEnd } from '../../../sidecar/iptables/tool.ts';
import type { RunProgram } from '../../../sidecar/run-program.ts';
import { kubeletRules, kubeProxyStart, outdatedRules } from '../../fixtures/kube-proxy-rules.ts';
import { type Namespace, namespacesMissing } from '../../end-to-end/namespace.ts';
import { namespaceFor, never, quiet, type Rulesets, rulesetsOf, runIn, savedRules, settleOn, type TestService } from './rulesets.ts';

const skip = await namespacesMissing();

const web: TestService = { key: 'ns/web:http', address: '172.30.0.41', endpoints: ['10.180.0.1:80', '10.180.2.1:80', '10.180.3.1:80'] };
const api: TestService = { key: 'ns/api:http', address: '172.30.0.42', endpoints: ['10.180.0.2:8080'] };
const dns: TestService = { key: 'ns/dns:dns', protocol: 'UDP', port: 53, address: '172.30.0.10', endpoints: ['10.180.0.3:53'] };
const six: TestService = { key: 'ns/six:http', address: 'fd00:30::41', endpoints: ['[fd00:180::1]:80'] };
const services = [web, api, dns, six];

const webChain = serviceChain('SVC', serviceHash(web.key, 'TCP'));
const badRule = '-p tcp -m no_such_match -j ACCEPT';

interface Node {
  readonly namespace: Namespace;
  readonly rules: NodeRules;
  /** What was given to iptables-restore, one text for each commit. */
  readonly commits: string[];
  /** As after a restart of the sidecar. */
  restarted(): NodeRules;
}

async function nodeOf(t: TestContext, backEnd: BackEnd, now?: () => number): Promise<Node> {
  const namespace = await namespaceFor(t, `rules-${backEnd}`);
  if (backEnd === 'legacy') await settleOn(namespace, backEnd);
  const commits: string[] = [];
  const run = recorded(runIn(namespace), commits);
  const restarted = (): NodeRules => new NodeRules({ run, logger: quiet, ...(now === undefined ? {} : { now }) });
  return { namespace, rules: restarted(), commits, restarted };
}

function recorded(run: RunProgram, commits: string[]): RunProgram {
  return (argv, options) => {
    const input = typeof options?.input === 'string' ? options.input : '';
    if (/^[:-][AXDI]? ?[A-Z]/m.test(input.replace(/^-S.*$/gm, ''))) commits.push(input);
    return run(argv, options);
  };
}

function withRule(rulesets: Rulesets, table: 'filter' | 'nat', chain: string, rule: string): Rulesets {
  const { tables } = rulesets.IPv4;
  const chains = new Map(tables[table].chains).set(chain, [...(tables[table].chains.get(chain) ?? []), rule]);
  return { ...rulesets, IPv4: { ...rulesets.IPv4, tables: { ...tables, [table]: { ...tables[table], chains } } } };
}

/** What a fresh namespace holds after a full load of these rulesets. */
async function savedAfterLoad(t: TestContext, backEnd: BackEnd, rulesets: Rulesets): Promise<string> {
  const fresh = await nodeOf(t, backEnd);
  await fresh.rules.write(rulesets, never);
  return savedRules(fresh.namespace, backEnd);
}

for (const backEnd of BACK_ENDS) {
  const on = (name: string, scenario: (t: TestContext) => Promise<void>): void => void test(`${backEnd}: ${name}`, { skip }, scenario);

  on('the first write is a full load; the same again is none', async (t) => {
    const node = await nodeOf(t, backEnd);
    const written = await node.rules.write(rulesetsOf(services), never);
    assert.equal(written.how, 'restore');
    const saved = await savedRules(node.namespace, backEnd);
    assert.match(saved, new RegExp(`-A ${webChain} .*--probability 0.33333`));
    assert.match(saved, /--to-destination \[fd00:180::1\]:80/);
    const before = node.commits.length;
    assert.equal((await node.rules.write(rulesetsOf(services), never)).how, 'unchanged');
    assert.equal(node.commits.length, before);
  });

  on('a change writes the changed chains only, and removes the stale ones', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf(services), never);
    node.commits.length = 0;
    const moved = { ...web, endpoints: ['10.180.0.1:80', '10.180.2.1:80', '10.180.4.1:80'] };
    const written = await node.rules.write(rulesetsOf([moved, api, dns, six]), never);
    assert.deepEqual(written, { how: 'partial', chainsWritten: 2, chainsRemoved: 1 });
    const gone = endpointChain(web.key, 'TCP', '10.180.3.1:80');
    const come = endpointChain(web.key, 'TCP', '10.180.4.1:80');
    const [commit, ...others] = node.commits;
    assert.deepEqual(others, []);
    const declared = (commit ?? '').split('\n').filter((line) => line.startsWith(':'));
    assert.deepEqual(declared.sort(), [`:${come} - [0:0]`, `:${gone} - [0:0]`, `:${webChain} - [0:0]`].sort());
    assert.equal((commit ?? '').split('\n').length, 12);
    assert.equal(await savedRules(node.namespace, backEnd), await savedAfterLoad(t, backEnd, rulesetsOf([moved, api, dns, six])));
  });

  on('rules of others stay, whatever is written', async (t) => {
    const node = await nodeOf(t, backEnd);
    const foreign: [string, string[]][] = [
      ['iptables', ['-A', 'INPUT', '-s', '192.0.2.1', '-j', 'DROP']],
      ['iptables', ['-N', 'KUBE-FIREWALL']],
      ['iptables', ['-A', 'OUTPUT', '-j', 'KUBE-FIREWALL']],
      ['iptables', ['-P', 'FORWARD', 'DROP']],
      ['iptables', ['-t', 'nat', '-N', 'CNI-1']],
      ['iptables', ['-t', 'nat', '-A', 'POSTROUTING', '-m', 'comment', '--comment', 'to -j KUBE-SERVICES', '-j', 'CNI-1']],
      ['ip6tables', ['-A', 'INPUT', '-s', '2001:db8::1', '-j', 'DROP']],
    ];
    for (const [program, args] of foreign) await node.namespace.must(program.replace('tables', `tables-${backEnd}`), args);
    const others = async (): Promise<string[]> =>
      (await savedRules(node.namespace, backEnd)).split('\n').filter((line) => !/KUBE-(?!FIREWALL)/.test(line) || line.includes('CNI-1'));
    const before = (await others()).filter((line) => line !== '');
    for (const next of [services, [api], services, []]) await node.rules.write(rulesetsOf(next), never);
    const after = new Set(await others());
    assert.deepEqual(
      before.filter((line) => !after.has(line)),
      [],
    );
  });

  on('after a restart stale chains go, jumps stand once, and nothing is torn down before', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf(services), never);
    await node.namespace.must(`iptables-${backEnd}`, ['-t', 'nat', '-A', 'PREROUTING', '-j', CHAINS.services]);
    await node.namespace.must(`iptables-${backEnd}`, ['-t', 'nat', '-N', 'KUBE-SEP-ABCDEFGHIJKLMNOP']);
    node.commits.length = 0;
    const written = await node.restarted().write(rulesetsOf([web, six]), never);
    assert.equal(written.how, 'restore');
    for (const commit of node.commits) assert.doesNotMatch(commit, /^-F|^-X(?![\s\S]*COMMIT)/m);
    assert.equal(await savedRules(node.namespace, backEnd), await savedAfterLoad(t, backEnd, rulesetsOf([web, six])));
  });

  on('after a restart only what differs is written', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf(services), never);
    node.commits.length = 0;
    await node.restarted().write(rulesetsOf(services), never);
    assert.deepEqual(node.commits, []);
    const moved = { ...web, endpoints: ['10.180.0.1:80', '10.180.2.1:80', '10.180.4.1:80'] };
    await node.restarted().write(rulesetsOf([moved, api, dns, six]), never);
    const declared = node.commits
      .join('')
      .split('\n')
      .filter((line) => line.startsWith(':'));
    assert.deepEqual(declared.length, 3);
    assert.equal(await savedRules(node.namespace, backEnd), await savedAfterLoad(t, backEnd, rulesetsOf([moved, api, dns, six])));
  });

  on('content that the tool does not take is refused in its words, and what ran before runs', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf(services), never);
    const before = await savedRules(node.namespace, backEnd);
    const bad = withRule(rulesetsOf([{ ...web, endpoints: [] }, api]), 'nat', CHAINS.services, badRule);
    await assert.rejects(node.rules.write(bad, never), { code: 'rules-refused', message: /no_such_match[\s\S]*line \d+/ });
    assert.equal(await savedRules(node.namespace, backEnd), before);
    assert.equal((await node.rules.write(rulesetsOf([api]), never)).how, 'partial');
  });

  on('a first write that is refused leaves what an earlier run wrote', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf(services), never);
    const before = await savedRules(node.namespace, backEnd);
    const bad = withRule(rulesetsOf([{ ...web, endpoints: [] }]), 'nat', CHAINS.services, badRule);
    const restarted = node.restarted();
    await assert.rejects(restarted.write(bad, never), { code: 'rules-refused' });
    assert.equal(await savedRules(node.namespace, backEnd), before);
    assert.equal(restarted.written, null);
  });

  on('a change that finds the tables flushed becomes a full load', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf(services), never);
    for (const args of [['-F'], ['-X']]) await node.namespace.must(`iptables-${backEnd}`, ['-t', 'nat', ...args]);
    if (backEnd === 'legacy') await settleOn(node.namespace, backEnd);
    const next = rulesetsOf([{ ...web, endpoints: ['10.180.0.1:80', '10.180.9.1:80'] }, api]);
    assert.equal((await node.rules.write(next, never)).how, 'restore');
    assert.equal(await savedRules(node.namespace, backEnd), await savedAfterLoad(t, backEnd, next));
  });

  on('a chain of ours that another rule refers to is emptied and kept', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf(services), never);
    for (const args of [
      ['-N', 'OTHER'],
      ['-A', 'OTHER', '-j', webChain],
    ])
      await node.namespace.must(`iptables-${backEnd}`, ['-t', 'nat', ...args]);
    await node.rules.write(rulesetsOf([api]), never);
    const saved = await savedRules(node.namespace, backEnd);
    assert.match(saved, new RegExp(`^:${webChain} -$`, 'm'));
    assert.doesNotMatch(saved, new RegExp(`^-A ${webChain} `, 'm'));
  });

  on('drift is found and put right; without drift nothing is written', async (t) => {
    let clock = 0;
    // Time passes with each look at the clock, so a comparison takes some and the next one is due later.
    const node = await nodeOf(t, backEnd, () => clock++);
    await node.rules.write(rulesetsOf(services), never);
    const before = await savedRules(node.namespace, backEnd);
    node.commits.length = 0;
    assert.deepEqual(await node.rules.repair(never), []);
    assert.deepEqual(node.commits, []);

    const tool = `iptables-${backEnd}`;
    await node.namespace.must(tool, [
      '-t',
      'nat',
      '-D',
      'PREROUTING',
      '-m',
      'comment',
      '--comment',
      'service portals',
      '-j',
      CHAINS.services,
    ]);
    const jumpRepaired = await node.rules.repair(never);
    assert.equal(jumpRepaired.length, 1, jumpRepaired.join('\n'));
    assert.match(jumpRepaired[0] ?? '', /^IPv4 nat: put back in PREROUTING: /);

    await node.namespace.must(tool, ['-t', 'nat', '-F', webChain]);
    assert.deepEqual(await node.rules.repair(never), [], 'a glance does not see it, and a comparison is not due');
    clock += 1_000_000;
    assert.deepEqual(await node.rules.repair(never), [`IPv4 nat: wrote chain ${webChain}`]);

    await node.namespace.must(tool, ['-F']);
    const flushed = await node.rules.repair(never);
    assert.deepEqual(
      flushed.filter((line) => line.includes(' nat')),
      [],
    );
    assert.ok(flushed.includes(`IPv4 filter: wrote chain ${CHAINS.forward}`), flushed.join('\n'));
    assert.equal(await savedRules(node.namespace, backEnd), before);
  });

  on('reject rules of the next state come before nat changes, those of the last go after', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf([web, { ...api, endpoints: [] }]), never);
    node.commits.length = 0;
    await node.rules.write(rulesetsOf([{ ...web, endpoints: [] }, api]), never);
    const [additions, nat, removals, ...others] = node.commits;
    assert.deepEqual(others, []);
    assert.match(additions ?? '', /^\*filter\n[\s\S]*ns\/web:http[\s\S]*ns\/api:http[\s\S]*COMMIT/);
    assert.match(nat ?? '', /^\*nat\n/);
    assert.match(removals ?? '', /^\*filter\n[\s\S]*ns\/web:http[\s\S]*COMMIT/);
    assert.doesNotMatch(removals ?? '', /ns\/api:http/);
  });

  if (backEnd === 'legacy')
    on('a lock that others hold fails the write, which works once it is free', async (t) => {
      const node = await nodeOf(t, backEnd);
      await node.rules.write(rulesetsOf(services), never);
      const before = await savedRules(node.namespace, backEnd);
      const holder = node.namespace.spawn('flock', [
        '-x',
        node.namespace.environment['XTABLES_LOCKFILE'] ?? '',
        'sh',
        '-c',
        'echo held; cat',
      ]);
      await once(holder.stdout ?? holder, 'data');
      await assert.rejects(node.rules.write(rulesetsOf([api]), never), { code: 'tables-locked', message: /xtables lock/ });
      assert.equal(await savedRules(node.namespace, backEnd), before);
      holder.stdin?.end();
      await once(holder, 'exit');
      assert.equal((await node.rules.write(rulesetsOf([api]), never)).how, 'partial');
    });

  on('a signal aborted before the first commit changes nothing', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf(services), never);
    const before = await savedRules(node.namespace, backEnd);
    await assert.rejects(node.rules.write(rulesetsOf([api]), AbortSignal.abort(new Error('stop'))), /stop/);
    assert.equal(await savedRules(node.namespace, backEnd), before);
  });

  on('where the rules cannot be saved all of them are written over what is there, and a repair takes out what is too much', async (t) => {
    const node = await nodeOf(t, backEnd);
    await node.rules.write(rulesetsOf(services), never);
    const failing: RunProgram = (argv, options) =>
      argv[0]?.endsWith('-save') === true ? runIn(node.namespace)(['false']) : runIn(node.namespace)(argv, options);
    let saves = true;
    const run: RunProgram = (argv, options) => (saves ? runIn(node.namespace) : failing)(argv, options);
    const rules = new NodeRules({ run, logger: quiet });
    await rules.tool(never);
    saves = false;
    assert.equal((await rules.write(rulesetsOf([web, six]), never)).how, 'restore');
    const written = await savedRules(node.namespace, backEnd);
    assert.match(written, new RegExp(`^-A ${webChain} .*--probability 0.33333`, 'm'));
    saves = true;
    assert.notDeepEqual(await rules.repair(never), [], 'stale chains, and jumps that stand twice');
    assert.equal(await savedRules(node.namespace, backEnd), await savedAfterLoad(t, backEnd, rulesetsOf([web, six])));
  });

  on('what kube-proxy left goes with the first write, and what the kubelet keeps stays', async (t) => {
    const node = await nodeOf(t, backEnd);
    const load = (text: string) => node.namespace.must(`iptables-${backEnd}-restore`, ['--noflush'], text);
    await load(kubeletRules('IPv4'));
    const before = await node.namespace.must(`iptables-${backEnd}-save`, ['-t', 'mangle']);
    for (const text of [kubeProxyStart(), outdatedRules('IPv4')]) await load(text);
    await node.rules.write(rulesetsOf([web, six]), never);
    const saved = await savedRules(node.namespace, backEnd);
    assert.doesNotMatch(saved, /KUBE-PROXY-CANARY|KUBE-XLB-|ABCDEFGHIJKLMNOP/);
    assert.match(saved, /^-A OUTPUT -j KUBE-FIREWALL$/m);
    const bare = (text: string): string => text.replace(/^#.*$/gm, '');
    assert.equal(bare(await node.namespace.must(`iptables-${backEnd}-save`, ['-t', 'mangle'])), bare(before));
  });

  on('the old chains of the userspace proxy are removed once', async (t) => {
    const node = await nodeOf(t, backEnd);
    const old = [
      ['-N', 'KUBE-PORTALS-CONTAINER'],
      ['-A', 'PREROUTING', '-j', 'KUBE-PORTALS-CONTAINER'],
      ['-A', 'KUBE-PORTALS-CONTAINER', '-d', '172.30.0.41', '-p', 'tcp', '-j', 'REDIRECT', '--to-ports', '40000'],
    ];
    for (const args of old) await node.namespace.must(`iptables-${backEnd}`, ['-t', 'nat', ...args]);
    await node.rules.write(rulesetsOf(services), never);
    assert.doesNotMatch(await savedRules(node.namespace, backEnd), /KUBE-PORTALS/);
  });
}
