// The router role on a real HAProxy, with real requests.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { stopHaproxy } from '../../../sidecar/haproxy/process.ts';
import { ask } from '../../../sidecar/haproxy/runtime-socket.ts';
import {
  freePort,
  get,
  keptAlive,
  RUN_ON,
  steadyLoad,
  target,
  testNode,
  type TestNode,
  withoutHaproxy,
  withoutHaproxyUser,
} from '../../fixtures/haproxy-node.ts';
import { until } from '../../fixtures/poll.ts';
import { type Pod, routerShards, startPod, type TestBackend, testServer } from '../../fixtures/router-shards.ts';

const skip = withoutHaproxy();

describe('the router role', { skip }, () => {
  let node: TestNode;
  let port: number;
  let pods: { readonly a: Pod; readonly b: Pod; readonly c: Pod };

  before(async () => {
    pods = { a: await startPod('a'), b: await startPod('b'), c: await startPod('c') };
  });
  after(async () => {
    for (const pod of Object.values(pods)) await pod.close();
  });

  async function withNode(work: () => Promise<void>): Promise<void> {
    node = await testNode();
    port = await freePort();
    try {
      await work();
    } finally {
      await node.close();
    }
  }

  const one = (...behind: readonly Pod[]): TestBackend => ({
    name: 'be_http:ns:one',
    servers: behind.map((pod) => testServer(pod.port)),
  });
  /** HAProxy behind a line of shell. */
  async function haproxyAfter(line: string): Promise<string> {
    const path = join(node.state, 'haproxy');
    await writeFile(path, `#!/bin/sh\n${line}\nexec haproxy "$@"\n`, { mode: 0o755 });
    return path;
  }
  const served = async (host = 'be_http:ns:one'): Promise<string> => (await get(port, host)).body;

  it('starts HAProxy, keeps its files private, and is not ready before', () =>
    withNode(async () => {
      const role = await node.open();
      assert.equal(await role.ready(), false);
      assert.match((await role.tools())['haproxy'] ?? '', /^\d+\.\d+/);
      const outcome = await role.apply(
        target(routerShards({ port, backends: [one(pods.a)], certificates: { 'x.pem': 'secret' } })),
        RUN_ON,
      );
      assert.deepEqual({ ...outcome, durationMs: 0 }, { outcome: 'applied', how: 'start', stage: null, message: '', durationMs: 0 });
      assert.equal(await served(), 'a');
      assert.equal(await role.ready(), true);
      const current = await node.current();
      assert.equal((await node.worker()).description, current);
      const pem = await stat(join(node.state, 'router', 'current', 'certificates', 'x.pem'));
      assert.equal(pem.mode & 0o777, 0o600);
    }));

  it('does nothing for what runs already', () =>
    withNode(async () => {
      const role = await node.open();
      const files = routerShards({ port, backends: [one(pods.a)] });
      await role.apply(target(files), RUN_ON);
      const { pid } = await node.worker();
      assert.equal((await role.apply(target(files, 2), RUN_ON)).how, 'unchanged');
      assert.equal((await node.worker()).pid, pid);
    }));

  it('adds and removes servers without a reload, and lets requests in flight end', () =>
    withNode(async () => {
      let finish = (): void => undefined;
      const slow = await startPod('slow', new Promise((resolve) => (finish = resolve)));
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [one(slow)] })), RUN_ON);
      const { pid } = await node.worker();
      const inFlight = get(port, 'be_http:ns:one', '/slow');
      await until('the request reached the pod', () => slow.slowRequests() === 1);
      const outcome = await role.apply(target(routerShards({ port, backends: [one(pods.b)] })), RUN_ON);
      assert.equal(outcome.how, 'runtime', outcome.message);
      for (let i = 0; i < 5; i++) assert.equal(await served(), 'b');
      assert.match(await ask(join(node.state, 'run', 'admin.sock'), 'show servers state'), new RegExp(`:${slow.port} `));
      finish();
      assert.deepEqual([(await inFlight).status, (await inFlight).body], [200, 'slow']);
      await until('the removed server is deleted', async () => {
        return !(await ask(join(node.state, 'run', 'admin.sock'), 'show servers state')).includes(`:${slow.port} `);
      });
      assert.equal((await node.worker()).pid, pid);
      await slow.close();
    }));

  it('brings back a server that is still being removed', () =>
    withNode(async () => {
      const slow = await startPod('slow', new Promise(() => undefined));
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [one(slow)] })), RUN_ON);
      const { pid } = await node.worker();
      const inFlight = get(port, 'be_http:ns:one', '/slow').catch(() => null);
      await until('the request reached the pod', () => slow.slowRequests() === 1);
      await role.apply(target(routerShards({ port, backends: [one(pods.b)] })), RUN_ON);
      assert.equal(await served(), 'b');
      const outcome = await role.apply(target(routerShards({ port, backends: [one(slow)] })), RUN_ON);
      assert.equal(outcome.how, 'runtime', outcome.message);
      for (let i = 0; i < 3; i++) assert.equal(await served(), 'slow');
      assert.equal((await node.worker()).pid, pid);
      await slow.close();
      await inFlight;
    }));

  it('remembers over a restart which servers were being removed', () =>
    withNode(async () => {
      const slow = await startPod('slow', new Promise(() => undefined));
      const first = await node.open();
      await first.apply(target(routerShards({ port, backends: [one(slow)] })), RUN_ON);
      const inFlight = get(port, 'be_http:ns:one', '/slow').catch(() => null);
      await until('the request reached the pod', () => slow.slowRequests() === 1);
      await first.apply(target(routerShards({ port, backends: [one(pods.b)] })), RUN_ON);
      const second = await node.open();
      const outcome = await second.apply(target(routerShards({ port, backends: [one(slow)] })), RUN_ON);
      assert.deepEqual([outcome.how, outcome.outcome], ['reload', 'applied'], outcome.message);
      assert.match(outcome.message, /still finishes connections/);
      assert.equal(await served(), 'slow');
      await slow.close();
      await inFlight;
    }));

  it('cuts connections to a removed server when its time is over', () =>
    withNode(async () => {
      const slow = await startPod('slow', new Promise(() => undefined));
      const role = await node.open({ serverRemovalGraceMs: 1 });
      await role.apply(target(routerShards({ port, backends: [one(slow)] })), RUN_ON);
      const inFlight = get(port, 'be_http:ns:one', '/slow').then(
        ({ status }) => status,
        () => 0,
      );
      await until('the request reached the pod', () => slow.slowRequests() === 1);
      await role.apply(target(routerShards({ port, backends: [one(pods.b)] })), RUN_ON);
      assert.notEqual(await inFlight, 200);
      await until('the removed server is deleted', async () => {
        return !(await ask(join(node.state, 'run', 'admin.sock'), 'show servers state')).includes(`:${slow.port} `);
      });
      assert.equal(await served(), 'b');
      await slow.close();
    }));

  it('changes weights, checks and map entries without a reload', () =>
    withNode(async () => {
      const [a, b] = [testServer(pods.a.port), testServer(pods.b.port)];
      const two = { name: 'be_http:ns:two', servers: [testServer(pods.c.port)] };
      const backend = { name: 'be_http:ns:one', servers: [a, { ...b, weight: 0 }] };
      const hosts = { h1: backend.name, 'back\\slash;x': backend.name };
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [backend, two], hosts })), RUN_ON);
      const { pid } = await node.worker();
      assert.deepEqual(await Promise.all([served('h1'), served('h1')]), ['a', 'a']);

      const moved = {
        ...backend,
        servers: [
          { ...a, weight: 0, checkInterval: 5000 },
          { ...b, weight: 9 },
        ],
      };
      const next = { h1: two.name, h2: backend.name, 'new\\slash;x': two.name };
      const outcome = await role.apply(target(routerShards({ port, backends: [moved, two], hosts: next })), RUN_ON);
      assert.equal(outcome.how, 'runtime', outcome.message);
      assert.equal((await node.worker()).pid, pid);
      assert.deepEqual([await served('h1'), await served('h2'), await served('h2')], ['c', 'b', 'b']);
      assert.equal((await get(port, 'back\\slash;x')).status, 503);
      assert.equal(await served('new\\slash;x'), 'c');
    }));

  it('gives servers that were added the same cookies as a reload would', () =>
    withNode(async () => {
      const sticky = (...servers: readonly Pod[]) => ({ ...one(...servers), cookies: true });
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [sticky(pods.a)] })), RUN_ON);
      const outcome = await role.apply(target(routerShards({ port, backends: [sticky(pods.b)] })), RUN_ON);
      assert.equal(outcome.how, 'runtime', outcome.message);
      const cookie = String((await get(port, 'be_http:ns:one')).headers['set-cookie']);
      assert.match(cookie, /^sticky=[0-9a-f]+/);
      const reloaded = await role.apply(target(routerShards({ port, backends: [sticky(pods.b)], base: ['# other'] })), RUN_ON);
      assert.equal(reloaded.how, 'reload');
      assert.equal(String((await get(port, 'be_http:ns:one')).headers['set-cookie']), cookie);
    }));

  it('reloads for a new backend, with the reason', () =>
    withNode(async () => {
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      const { pid } = await node.worker();
      const two = { name: 'be_http:ns:two', servers: [testServer(pods.b.port)] };
      const outcome = await role.apply(target(routerShards({ port, backends: [one(pods.a), two] })), RUN_ON);
      assert.deepEqual([outcome.outcome, outcome.how, outcome.message], ['applied', 'reload', 'backend added: be_http:ns:two']);
      assert.notEqual((await node.worker()).pid, pid);
      assert.equal(await served('be_http:ns:two'), 'b');
    }));

  it('reloads when HAProxy answers a command with something unexpected', () =>
    withNode(async () => {
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      const name = testServer(pods.b.port).name;
      const added = await ask(join(node.state, 'run', 'admin.sock'), `add server be_http:ns:one/${name} 127.0.0.1:1 id 77`);
      assert.match(added, /New server registered/);
      const outcome = await role.apply(target(routerShards({ port, backends: [one(pods.b)] })), RUN_ON);
      assert.equal(outcome.how, 'reload');
      assert.match(outcome.message, /Already exists a server with the same name/);
      assert.equal(await served(), 'b');
    }));

  it('fails no request while it reloads', () =>
    withNode(async () => {
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const load = [
        steadyLoad(() => keptAlive(port, 'be_http:ns:one', agent)),
        steadyLoad(async () => (await get(port, 'be_http:ns:one')).status),
      ];
      for (let i = 0; i < 3; i++) {
        const sofar = load.map((stream) => stream.answered());
        const outcome = await role.apply(target(routerShards({ port, backends: [one(pods.a)], base: [`# ${i}`] })), RUN_ON);
        assert.equal(outcome.how, 'reload', outcome.message);
        await until('requests went on', () => load.every((stream, index) => stream.answered() > (sofar[index] ?? 0) + 20));
      }
      assert.deepEqual(await Promise.all(load.map((stream) => stream.stop())), [[], []]);
      agent.destroy();
    }));

  it('refuses what HAProxy refuses, in its words but without secrets, and serves on', () =>
    withNode(async () => {
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      const [{ pid }, current] = [await node.worker(), await node.current()];
      const bad = ['userlist u', '  user hidden password hidden-word bogus', 'backend x', '  nonsense'];
      const outcome = await role.apply(target(routerShards({ port, backends: [one(pods.a)], base: bad })), RUN_ON);
      assert.deepEqual([outcome.outcome, outcome.how, outcome.stage], ['refused', null, 'check']);
      assert.match(outcome.message, /unknown keyword 'nonsense'/);
      assert.doesNotMatch(outcome.message, /hidden/);
      assert.deepEqual([(await node.worker()).pid, await node.current()], [pid, current]);
      assert.equal(await served(), 'a');
    }));

  it('says what keeps HAProxy from starting', () =>
    withNode(async () => {
      const missing = await node.open({ haproxy: '/nonexistent/haproxy' });
      const files = routerShards({ port, backends: [one(pods.a)] });
      const outcome = await missing.apply(target(files), RUN_ON);
      assert.deepEqual([outcome.outcome, outcome.how], ['failed', null]);
      assert.match(outcome.message, /install it .* or pass --haproxy PATH/);

      const taken = createServer();
      await new Promise<void>((resolve) => taken.listen(port, '127.0.0.1', resolve));
      const role = await node.open();
      const refused = await role.apply(target(files), RUN_ON);
      assert.equal(refused.outcome, 'failed');
      assert.match(refused.message, new RegExp(`cannot bind socket .*127.0.0.1:${port}`));
      assert.equal(await role.ready(), false);
      await new Promise((resolve) => taken.close(resolve));
      assert.equal((await role.apply(target(files), RUN_ON)).outcome, 'applied');
      assert.equal(await served(), 'a');
    }));

  it('goes back when a reload fails', () =>
    withNode(async () => {
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      const current = await node.current();
      const taken = createServer();
      await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
      const address = taken.address();
      const other = typeof address === 'object' && address !== null ? address.port : 0;
      const files = routerShards({ port, backends: [one(pods.b)], base: ['frontend more', `  bind 127.0.0.1:${other}`] });
      const outcome = await role.apply(target(files), RUN_ON);
      assert.equal(outcome.outcome, 'failed');
      assert.match(outcome.message, /cannot bind socket/);
      assert.equal(await node.current(), current);
      assert.equal(await served(), 'a');
      await new Promise((resolve) => taken.close(resolve));
      assert.equal((await role.apply(target(files), RUN_ON)).how, 'reload');
      assert.equal(await served(), 'b');
    }));

  it('adopts a running HAProxy after a restart, with what it was given by commands', () =>
    withNode(async () => {
      const first = await node.open();
      await first.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      await first.apply(target(routerShards({ port, backends: [one(pods.b)] })), RUN_ON);
      const { pid } = await node.worker();
      const second = await node.open();
      assert.equal((await second.apply(target(routerShards({ port, backends: [one(pods.b)] })), RUN_ON)).how, 'unchanged');
      const outcome = await second.apply(target(routerShards({ port, backends: [one(pods.c)] })), RUN_ON);
      assert.equal(outcome.how, 'runtime', outcome.message);
      assert.equal(await served(), 'c');
      assert.equal((await node.worker()).pid, pid);
    }));

  it('starts HAProxy again when it was killed, with the files of the last change', () =>
    withNode(async () => {
      const role = await node.open();
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      await role.apply(target(routerShards({ port, backends: [one(pods.b)] })), RUN_ON);
      const { pid } = await node.worker();
      process.kill(pid, 'SIGKILL');
      await until('HAProxy serves again', async () => (await served().catch(() => '')) === 'b');
      assert.notEqual((await node.worker()).pid, pid);
    }));

  it('replaces a HAProxy that nobody can talk to any more', () =>
    withNode(async () => {
      const role = await node.open({ watchMs: 3_600_000 });
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      const lost = await node.masterPid();
      for (const socket of ['master.sock', 'run/admin.sock']) await rm(join(node.state, socket));
      const load = steadyLoad(async () => (await get(port, 'be_http:ns:one')).status);
      assert.match((await role.repairDrift(RUN_ON)).repaired.join(), /started it/);
      assert.notEqual(await node.masterPid(), lost);
      await until('the lost one ended', () => !existsSync(`/proc/${lost}`));
      assert.deepEqual(await load.stop(), []);
    }));

  it('starts an earlier configuration when HAProxy refuses the current one', () =>
    withNode(async () => {
      const role = await node.open({ watchMs: 3_600_000 });
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      await role.apply(target(routerShards({ port, backends: [one(pods.b)] })), RUN_ON);
      await role.close();
      await writeFile(join(node.state, 'router', 'generations', await node.current(), 'checked'), '');
      await stopHaproxy(node.state);
      const refusing = `case "$*" in *-c*${await node.current()}*) echo '[ALERT] (1) : config : no more' >&2; exit 1 ;; esac`;
      const next = await node.open({ watchMs: 3_600_000, haproxy: await haproxyAfter(refusing) });
      const { repaired } = await next.repairDrift(RUN_ON);
      assert.match(repaired.join(), /started an earlier one/);
      assert.equal(await served(), 'a');
    }));

  it('starts HAProxy again although nothing can be written', () =>
    withNode(async () => {
      const role = await node.open({ watchMs: 3_600_000 });
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      await stopHaproxy(node.state);
      // What cannot replace a folder fails for root too, as on a disk that is full.
      const journal = join(node.state, 'journal');
      await rm(journal);
      await mkdir(join(journal, 'in the way'), { recursive: true });
      await assert.rejects(role.repairDrift(RUN_ON));
      assert.equal(await served(), 'a');
      const { pid } = await node.worker();
      await rm(journal, { recursive: true });
      assert.deepEqual((await role.repairDrift(RUN_ON)).repaired, []);
      assert.equal((await node.worker()).pid, pid);
    }));

  it('takes a check that ended without a verdict for no refusal', () =>
    withNode(async () => {
      const killed = await node.open({ haproxy: await haproxyAfter('case "$*" in *-c*) kill -KILL $$ ;; esac') });
      const files = routerShards({ port, backends: [one(pods.a)] });
      const outcome = await killed.apply(target(files), RUN_ON);
      assert.deepEqual([outcome.outcome, outcome.stage], ['failed', 'check']);
      assert.match(outcome.message, /ended with 137 and no verdict/);
    }));

  it('says when its files are lost or damaged, and writes them again', () =>
    withNode(async () => {
      const role = await node.open({ watchMs: 3_600_000 });
      const files = target(routerShards({ port, backends: [one(pods.a)] }));
      const lose = async (how: (current: string) => Promise<void>): Promise<void> => {
        await how(join(node.state, 'router', 'current'));
        await stopHaproxy(node.state);
        assert.equal((await role.repairDrift(RUN_ON)).lost, true);
        assert.equal((await role.apply(files, RUN_ON)).how, 'start');
        assert.equal(await served(), 'a');
      };
      await role.apply(files, RUN_ON);
      await lose((current) => rm(current));
      await lose((current) => writeFile(join(current, 'maps', 'http.map'), ''));

      await writeFile(join(node.state, 'router', 'current', 'maps', 'http.map'), '');
      const mended = await role.apply(files, RUN_ON);
      assert.deepEqual([mended.how, mended.message], ['reload', 'files of this node were damaged']);
      assert.equal(await served(), 'a');
    }));

  it('puts right servers that somebody changed', () =>
    withNode(async () => {
      const role = await node.open();
      const weighted = { name: 'be_http:ns:one', servers: [testServer(pods.a.port, { weight: 7 })] };
      await role.apply(target(routerShards({ port, backends: [weighted] })), RUN_ON);
      const { pid } = await node.worker();
      const admin = join(node.state, 'run', 'admin.sock');
      await ask(admin, `set server be_http:ns:one/${testServer(pods.a.port).name} state maint`);
      assert.equal((await get(port, 'be_http:ns:one')).status, 503);
      const found: string[] = [];
      for (let i = 0; i < 10; i++) found.push(...(await role.repairDrift(RUN_ON)).repaired);
      assert.match(found.join(), /was in maintenance/);
      assert.equal(await served(), 'a');
      assert.equal((await node.worker()).pid, pid);
    }));

  it('keeps few generations, and never removes what runs', () =>
    withNode(async () => {
      const role = await node.open();
      const backends = (pod: Pod, weight: number) => [{ name: 'be_http:ns:one', servers: [testServer(pod.port, { weight })] }];
      await role.apply(target(routerShards({ port, backends: backends(pods.a, 1), certificates: { 'x.pem': 'secret' } })), RUN_ON);
      const loaded = await node.current();
      for (let weight = 2; weight < 14; weight++) {
        const files = routerShards({ port, backends: backends(pods.a, weight), certificates: { 'x.pem': 'secret' } });
        assert.equal((await role.apply(target(files), RUN_ON)).how, 'runtime');
      }
      const names = await readdir(join(node.state, 'router', 'generations'));
      assert.ok(names.length <= 9, names.join());
      assert.ok(names.includes(loaded) && names.includes(await node.current()));
    }));

  it('waits between reloads, and lets go when it is told to', () =>
    withNode(async () => {
      const role = await node.open({ minimumReloadIntervalMs: 3_600_000 });
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      assert.equal((await role.apply(target(routerShards({ port, backends: [one(pods.a)], base: ['# 1'] })), RUN_ON)).how, 'reload');
      const current = await node.current();
      const stop = new AbortController();
      const waiting = role.apply(target(routerShards({ port, backends: [one(pods.b)], base: ['# 2'] })), stop.signal);
      const outcome = await Promise.race([waiting, get(port, 'be_http:ns:one')]);
      assert.equal('body' in outcome && outcome.body, 'a');
      stop.abort();
      assert.equal((await waiting).outcome, 'failed');
      assert.equal(await node.current(), current);
    }));

  it('takes another reload script, and its failure for a failure', () =>
    withNode(async () => {
      const script = join(node.state, 'reload');
      await writeFile(script, '#!/bin/sh\nenv | grep ^HEADGATE_GENERATION= > "$HEADGATE_STATE/seen"\necho no such luck >&2\nexit 3\n');
      await chmod(script, 0o755);
      const role = await node.open({ reloadScript: script });
      await role.apply(target(routerShards({ port, backends: [one(pods.a)] })), RUN_ON);
      const outcome = await role.apply(target(routerShards({ port, backends: [one(pods.b)], base: ['# 1'] })), RUN_ON);
      assert.equal(outcome.outcome, 'failed');
      assert.match(outcome.message, /no such luck/);
      assert.match(await readFile(join(node.state, 'seen'), 'utf8'), /=[0-9a-f]{64}/);
      assert.equal(await served(), 'a');
    }));

  it('runs the workers as haproxy when they can reach their sockets', { skip: withoutHaproxyUser() }, () =>
    withNode(async () => {
      await chmod(node.state, 0o711);
      const role = await node.open();
      const inner = [
        'frontend inner',
        '  bind unix@"${HEADGATE_RUN-.}/fe_https.sock" mode 600',
        '  http-request return status 200 content-type text/plain string inner',
      ];
      const through = ['backend through', '  server inner unix@"${HEADGATE_RUN-.}/fe_https.sock"'];
      const files = routerShards({ port, backends: [], hosts: { inner: 'through' }, base: [...inner, ...through] });
      for (const change of ['', '# other']) {
        const changed = new Map(
          [...files].map(([path, text]) => [path, path.endsWith('00-base.cfg') ? `${String(text)}${change}\n` : text]),
        );
        const { outcome, message } = await role.apply(target(changed), RUN_ON);
        assert.equal(outcome, 'applied', message);
        assert.equal((await get(port, 'inner')).status, 200);
        const status = await readFile(`/proc/${(await node.worker()).pid}/status`, 'utf8');
        assert.doesNotMatch(status, /^Uid:.*\b0\b/m);
      }
    }),
  );

  it('refuses a state folder whose path is too long for sockets', () =>
    withNode(async () => {
      const stateDirectory = join(node.state, 'x'.repeat(80));
      await mkdir(stateDirectory);
      await assert.rejects(node.open({ stateDirectory }), /too long a path for HAProxy's sockets .* --state/);
    }));
});
