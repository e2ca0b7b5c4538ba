import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HeadgateError } from '../../../shared/error.ts';
import { ConntrackCleaner, staleFlows } from '../../../sidecar/iptables/conntrack.ts';
import type { RunProgram } from '../../../sidecar/run-program.ts';
import { never, quiet } from './rulesets.ts';

const listed = [
  'udp      17 29 src=203.0.113.2 dst=172.30.0.10 sport=4001 dport=53 src=10.0.0.1 dst=203.0.113.2 sport=53 dport=4001 mark=0 use=1',
  'udp      17 29 src=203.0.113.3 dst=172.30.0.10 sport=4002 dport=53 [UNREPLIED] src=10.0.0.2 dst=203.0.113.3 sport=53 dport=4002 use=1',
  'udp      17 29 src=203.0.113.4 dst=172.30.0.10 sport=4003 dport=53 [UNREPLIED] src=172.30.0.10 dst=203.0.113.4 sport=53 dport=4003 use=1',
  'udp      17 29 src=203.0.113.5 dst=172.30.0.11 sport=4004 dport=53 src=10.0.0.1 dst=203.0.113.5 sport=53 dport=4004 use=1',
  'udp      17 29 src=fd00::5 dst=fd00:30::10 sport=4004 dport=53 src=fd00:180::1 dst=fd00::5 sport=53 dport=4004 use=1',
].join('\n');

const all = new Set(['172.30.0.10:53', '172.30.0.11:53', '[fd00:30::10]:53']);

test('flows to serving endpoints stay, others to that service go, untranslated ones too', () => {
  const services = new Map([
    ['172.30.0.10:53', ['10.0.0.1:53']],
    ['172.30.0.11:53', ['10.0.0.1:53']],
    ['[fd00:30::10]:53', []],
  ]);
  assert.deepEqual(staleFlows(listed, all, services), [
    { service: '172.30.0.10:53', source: '10.0.0.2:53' },
    { service: '172.30.0.10:53', source: '172.30.0.10:53' },
    { service: '[fd00:30::10]:53', source: '[fd00:180::1]:53' },
  ]);
});

test('of a service that is gone the translated flows go', () => {
  assert.deepEqual(staleFlows(listed, new Set(['172.30.0.10:53']), new Map()), [
    { service: '172.30.0.10:53', source: '10.0.0.1:53' },
    { service: '172.30.0.10:53', source: '10.0.0.2:53' },
  ]);
});

test('a node port at every address is known by its port, unless the address is another service', () => {
  const flow = (address: string, source: string): string =>
    `udp 17 29 src=203.0.113.2 dst=${address} sport=4001 dport=30053 src=${source} dst=203.0.113.2 sport=53 dport=4001 use=1`;
  const flows = [flow('192.168.0.2', '10.0.0.1'), flow('192.168.7.7', '10.0.0.2'), flow('172.30.0.12', '10.0.0.3')].join('\n');
  const services = new Map([
    ['0.0.0.0:30053', ['10.0.0.1:53']],
    ['172.30.0.12:30053', ['10.0.0.3:53']],
  ]);
  const due = new Set(['0.0.0.0:30053']);
  assert.deepEqual(staleFlows(flows, due, services), [{ service: '192.168.7.7:30053', source: '10.0.0.2:53' }]);
  assert.equal(staleFlows(flows, due, new Map()).length, 3, 'gone');
});

test('services that did not change are not looked at', async () => {
  const ran: string[] = [];
  const cleaner = new ConntrackCleaner(fake(ran), quiet);
  cleaner.committed(new Map([['172.30.0.10:53', ['10.0.0.1:53']]]));
  await cleaner.clean(never);
  ran.length = 0;
  cleaner.committed(new Map([['172.30.0.10:53', ['10.0.0.1:53']]]));
  await cleaner.clean(never);
  assert.deepEqual(ran, []);
});

test('what could not be cleaned stays due', async () => {
  const ran: string[] = [];
  let installed = false;
  const run = fake(ran);
  const cleaner = new ConntrackCleaner((argv, options) => {
    if (!installed) return Promise.reject(new HeadgateError('program-missing', 'apply', 'conntrack is not installed'));
    return run(argv, options);
  }, quiet);
  cleaner.committed(new Map([['172.30.0.10:53', ['10.0.0.1:53']]]));
  await cleaner.clean(never);
  installed = true;
  await cleaner.clean(never);
  const deletion = 'conntrack -D -p udp -f ipv4 --orig-dst 172.30.0.10 --orig-port-dst 53 --reply-src 10.0.0.2 --reply-port-src 53';
  assert.ok(ran.includes(deletion), ran.join('\n'));
});

/** Stands in for a conntrack table with traffic, so that what is asked of it can be seen. */
function fake(ran: string[]): RunProgram {
  return async (argv) => {
    ran.push(argv.join(' '));
    return { code: 0, stdout: argv.includes('-L') ? listed : '', stderr: '', truncated: false };
  };
}
