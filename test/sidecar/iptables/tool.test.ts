import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HeadgateError } from '../../../shared/error.ts';
import { detectTool, isNewerOrSame, programName } from '../../../sidecar/iptables/tool.ts';
import type { RunProgram } from '../../../sidecar/run-program.ts';
import { namespacesMissing } from '../../end-to-end/namespace.ts';
import { namespaceFor, never, runIn } from './rulesets.ts';

const skip = await namespacesMissing();

test('programs are called by their explicit names', () => {
  assert.equal(programName('nft', 'IPv4', 'restore'), 'iptables-nft-restore');
  assert.equal(programName('legacy', 'IPv6', 'save'), 'ip6tables-legacy-save');
});

test('versions are compared by number', () => {
  assert.ok(isNewerOrSame('1.8.10', '1.8.9'));
  assert.ok(isNewerOrSame('1.8.4', '1.8.4'));
  assert.ok(!isNewerOrSame('1.6.2', '1.8.4'));
});

const rule = (chain: string): string[] => ['-A', chain, '-s', '192.0.2.1', '-j', 'DROP'];
const cases: { name: string; rules: [string, string[]][]; found: string }[] = [
  { name: 'without rules it is nft', rules: [], found: 'nft' },
  { name: 'any rule in legacy makes it legacy', rules: [['iptables-legacy', rule('INPUT')]], found: 'legacy' },
  { name: 'IPv6 rules count', rules: [['ip6tables-legacy', ['-A', 'INPUT', '-j', 'RETURN']]], found: 'legacy' },
  {
    name: 'with rules in both it is nft',
    rules: [
      ['iptables-legacy', rule('INPUT')],
      ['iptables-nft', rule('INPUT')],
    ],
    found: 'nft',
  },
  {
    name: "Kubernetes' chains count more than rules",
    rules: [
      ['iptables-legacy', ['-t', 'mangle', '-N', 'KUBE-KUBELET-CANARY']],
      ['iptables-nft', rule('INPUT')],
    ],
    found: 'legacy',
  },
];

for (const { name, rules, found } of cases) {
  test(name, { skip }, async (t) => {
    const namespace = await namespaceFor(t, 'detect');
    for (const [program, args] of rules) await namespace.must(program, args);
    const tool = await detectTool(runIn(namespace), never);
    assert.equal(tool.backEnd, found);
    assert.match(tool.version, /^\d+\.\d+\.\d+$/);
  });
}

test('one back end that is installed alone is used', async () => {
  const tool = await detectTool(installed({ legacy: '1.8.7' }), never);
  assert.deepEqual(tool, { backEnd: 'legacy', version: '1.8.7', families: ['IPv4', 'IPv6'] });
});

test('none or an old one is an error that says what to install', async () => {
  await assert.rejects(detectTool(installed({}), never), { code: 'iptables-missing', message: /install iptables/ });
  await assert.rejects(detectTool(installed({ nft: '1.8.2' }), never), { code: 'iptables-too-old', message: /1\.8\.2.*install/ });
});

test('IPv6 is left out where only IPv4 can be listed', { skip }, async (t) => {
  const run = runIn(await namespaceFor(t, 'detect'));
  const without: RunProgram = (argv, options) => (argv[0]?.startsWith('ip6') === true ? run(['false']) : run(argv, options));
  assert.deepEqual((await detectTool(without, never)).families, ['IPv4']);
  assert.deepEqual((await detectTool(run, never)).families, ['IPv4', 'IPv6']);
});

/** A machine with other versions than this one. */
function installed(versions: Readonly<Record<string, string>>): RunProgram {
  return async ([program = '']) => {
    const version = versions[program.split('-')[1] ?? ''];
    if (version === undefined) throw new HeadgateError('program-missing', 'apply', `${program} is not installed`);
    return { code: 0, stdout: `iptables-restore v${version} (nf_tables)\n`, stderr: '', truncated: false };
  };
}
