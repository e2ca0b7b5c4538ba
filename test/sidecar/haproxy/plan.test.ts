// Plans: what each kind of change becomes, and that commands leave nothing out.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { composeRouter } from '../../../shared/router/compose.ts';
import { capabilitiesOf } from '../../../sidecar/haproxy/capabilities.ts';
import { routerContents } from '../../../sidecar/haproxy/contents.ts';
import { type Lingering, type Plan, plan } from '../../../sidecar/haproxy/plan.ts';
import { LONGEST_COMMAND } from '../../../sidecar/haproxy/runtime-socket.ts';
import { routerShards, type TestRouter, testServer } from '../../fixtures/router-shards.ts';

const NAME = 'be_http:ns:one';
const PATH = `${NAME}/pod:p:s::127.0.0.1:`;
const one = { name: NAME, servers: [testServer(1)] };
const ROUTER: TestRouter = { port: 80, backends: [one] };
const CAPABLE = capabilitiesOf('2.6.12-1+deb12u4');

function planned(from: TestRouter, to: TestRouter, lingering: Lingering = new Map(), capabilities = CAPABLE): Plan {
  const contents = (router: TestRouter) => routerContents(composeRouter(routerShards(router)));
  return plan(contents(from), contents(to), lingering, capabilities);
}

function steps(of: Plan): readonly (readonly string[])[] {
  assert.equal(of.kind, 'runtime', JSON.stringify(of));
  return of.kind === 'runtime' ? of.steps.map((step) => step.map(({ text }) => text)) : [];
}

function reasons(of: Plan): readonly string[] {
  return of.kind === 'reload' ? of.reasons : assert.fail(`not a reload: ${of.kind}`);
}

test('nothing for what is the same', () => {
  assert.deepEqual(planned(ROUTER, ROUTER), { kind: 'none' });
});

test('a server comes before the one that it replaces goes', () => {
  const of = planned(ROUTER, { ...ROUTER, backends: [{ ...one, servers: [testServer(2, { checkInterval: 5000 })] }] });
  const line = 'pod:p:s::127.0.0.1:2 127.0.0.1:2 id 2 weight 1 pool-purge-delay 5s pool-max-conn -1 check inter 5000ms';
  assert.deepEqual(steps(of), [
    [`add server ${NAME}/${line}`, `enable server ${PATH}2`, `enable health ${PATH}2`],
    [`set server ${PATH}1 state maint`],
  ]);
  assert.deepEqual(of.kind === 'runtime' && [...of.removed.keys()], [`${PATH}1`]);
});

test('cookies are asked for again after a server was added', () => {
  const sticky = { ...one, cookies: true };
  const of = planned({ ...ROUTER, backends: [sticky] }, { ...ROUTER, backends: [{ ...sticky, servers: [testServer(1), testServer(2)] }] });
  assert.deepEqual(steps(of)[0]?.slice(1), [`enable dynamic-cookie backend ${NAME}`, `enable server ${PATH}2`]);
});

test('weights and checks change at run time; anything else of a server reloads', () => {
  const to = (change: Parameters<typeof testServer>[1]): Plan =>
    planned(ROUTER, { ...ROUTER, backends: [{ ...one, servers: [testServer(1, change)] }] });
  assert.deepEqual(steps(to({ weight: 7, checkInterval: 5000 })), [[`set server ${PATH}1 weight 7`, `enable health ${PATH}1`]]);
  for (const change of [{ id: 9 }, { port: 9 }, { maxConnections: 9 }, { http2: true }, { tls: { caFile: null, verifyHost: null } }]) {
    assert.deepEqual(reasons(to(change)), [`server changed: ${PATH}1`], JSON.stringify(change));
  }
});

test('another check interval reloads', () => {
  const checked = (checkInterval: number) => ({ ...ROUTER, backends: [{ ...one, servers: [testServer(1, { checkInterval })] }] });
  assert.deepEqual(reasons(planned(checked(1000), checked(2000))), [`server changed: ${PATH}1`]);
});

test('a server that still finishes connections is brought back, unless it differs or is not known', () => {
  const two = { ...ROUTER, backends: [{ ...one, servers: [testServer(1), testServer(2, { weight: 3 })] }] };
  const of = planned(ROUTER, two, new Map([[`${PATH}2`, testServer(2)]]));
  assert.deepEqual(steps(of), [[`set server ${PATH}2 state ready`], [`set server ${PATH}2 weight 3`]]);
  assert.deepEqual(of.kind === 'runtime' && of.revived, [`${PATH}2`]);
  for (const left of [null, testServer(2, { http2: true })]) {
    assert.match(reasons(planned(ROUTER, two, new Map([[`${PATH}2`, left]]))).join(), /still finishes connections/);
  }
});

test('everything else is a reason, each in words', () => {
  const two = { name: 'be_http:ns:two', servers: [] };
  const cases: readonly [TestRouter, string][] = [
    [{ ...ROUTER, backends: [one, two], hosts: { [NAME]: NAME } }, 'backend added: be_http:ns:two'],
    [{ ...ROUTER, backends: [], hosts: { [NAME]: NAME } }, `backend removed: ${NAME}`],
    [{ ...ROUTER, backends: [{ ...one, lines: ['timeout server 9s'] }] }, `backend changed: ${NAME}`],
    [{ ...ROUTER, base: ['# x'] }, 'base configuration changed'],
    [{ ...ROUTER, certificates: { 'ns:one.pem': 'x' } }, 'certificate added: ns:one.pem'],
  ];
  for (const [to, reason] of cases) assert.deepEqual(reasons(planned(ROUTER, to)), [reason]);
  const certified = { ...ROUTER, certificates: { 'ns:one.pem': 'x' } };
  assert.deepEqual(reasons(planned(certified, { ...certified, certificates: { 'ns:one.pem': 'y' } })), ['certificate changed: ns:one.pem']);
});

test('map entries: put before any is taken away, and before servers go', () => {
  const from = { ...ROUTER, hosts: { kept: NAME, moved: 'x', gone: NAME } };
  const to = { port: 80, hosts: { kept: NAME, moved: NAME, 'new;\\': NAME }, backends: [{ ...one, servers: [] }] };
  assert.deepEqual(steps(planned(from, to)), [
    [`add map maps/http.map <<\nnew;\\ ${NAME}\n`, `set map maps/http.map moved ${NAME}`],
    ['del map maps/http.map gone'],
    [`set server ${PATH}1 state maint`],
  ]);
  assert.deepEqual(steps(planned(to, { ...to, hosts: { kept: NAME, moved: NAME } })), [['del map maps/http.map new\\;\\\\']]);
});

test('many entries go in commands that the socket takes', () => {
  const hosts = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`${'h'.repeat(i % 400)}${i}`, NAME]));
  const commands = steps(planned({ ...ROUTER, hosts: {} }, { ...ROUTER, hosts })).flat();
  assert.ok(commands.length > 5 && commands.every((text) => Buffer.byteLength(text) <= LONGEST_COMMAND));
  const lines = commands.flatMap((text) => text.split('\n').slice(1, -1));
  assert.deepEqual(new Set(lines), new Set(Object.keys(hosts).map((host) => `${host} ${NAME}`)));
});

test('a HAProxy without add server reloads', () => {
  const to = { ...ROUTER, backends: [{ ...one, servers: [testServer(2)] }] };
  assert.match(reasons(planned(ROUTER, to, new Map(), capabilitiesOf('2.4.22'))).join(), /cannot add servers/);
});
