// The sidecar killed with -9 at each step of an application, alone or together with HAProxy: what serves is the content before
// or the new one, and the next sidecar gets to whichever it is asked for.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Files } from '../../../shared/files.ts';
import type { Step } from '../../../sidecar/haproxy/node-haproxy.ts';
import type { ApplyOrder } from '../../fixtures/haproxy-apply.ts';
import { freePort, get, RUN_ON, target, testNode, type TestNode, withoutHaproxy } from '../../fixtures/haproxy-node.ts';
import { until } from '../../fixtures/poll.ts';
import { type Pod, routerShards, startPod, testServer } from '../../fixtures/router-shards.ts';

const HOST = 'be_http:ns:one';
const SCRIPT = fileURLToPath(new URL('../../fixtures/haproxy-apply.ts', import.meta.url));

/** How the content changes from the one that runs. */
type Change = 'start' | 'runtime' | 'reload';

const STEPS: Readonly<Record<Change, readonly Step[]>> = {
  start: ['written', 'checked', 'journalled', 'switched', 'changed', 'applied'],
  runtime: ['written', 'journalled', 'switched', 'changed', 'applied'],
  reload: ['written', 'checked', 'journalled', 'switched', 'changed', 'applied'],
};

describe('kill -9 on the way', { skip: withoutHaproxy(), concurrency: 2 }, () => {
  let a: Pod;
  let b: Pod;
  before(async () => {
    a = await startPod('a');
    b = await startPod('b');
  });
  after(async () => {
    await a.close();
    await b.close();
  });

  for (const change of ['start', 'runtime', 'reload'] as const) {
    for (const step of STEPS[change]) {
      for (const haproxyToo of change === 'start' ? [false] : [false, true]) {
        it(`${change}, after ${step}${haproxyToo ? ', HAProxy too' : ''}`, () => scenario(change, { killAt: step }, haproxyToo));
      }
    }
  }

  it('start, while HAProxy comes up', () => scenario('start', { haproxy: 'killing' }, false));
  it('reload, right after the signal', () => scenario('reload', { reloadScript: 'killing' }, false));

  async function scenario(change: Change, kill: Partial<ApplyOrder>, haproxyToo: boolean): Promise<void> {
    const node = await testNode();
    try {
      const port = await freePort();
      const base = change === 'reload' ? ['# another base'] : [];
      const old = routerShards({ port, backends: [{ name: HOST, servers: [testServer(a.port)] }] });
      const next = routerShards({ port, backends: [{ name: HOST, servers: [testServer(b.port)] }], base });
      if (change !== 'start') await applyOnce(node, old);
      const alsoKill = haproxyToo ? await node.masterPid() : null;
      await applyAndDie(node, next, { ...kill, alsoKill });

      const serves = async (): Promise<string> => (await get(port, HOST)).body;
      if (change !== 'start' && !haproxyToo) assert.match(await serves(), /^[ab]$/);
      const role = await node.open({ watchMs: 3_600_000 });
      await role.repairDrift(RUN_ON);
      if (change !== 'start') assert.match(await serves(), /^[ab]$/);
      const outcome = await role.apply(target(next), RUN_ON);
      assert.equal(outcome.outcome, 'applied', outcome.message);
      assert.equal(await serves(), 'b');
      const last = await role.apply(target(old), RUN_ON);
      assert.equal(last.outcome, 'applied', last.message);
      await until('only the newest configuration serves', async () => {
        const answers = await Promise.all([serves(), serves(), serves(), serves()]);
        return answers.every((answer) => answer === 'a');
      });
    } finally {
      await node.close();
    }
  }
});

async function applyOnce(node: TestNode, files: Files): Promise<void> {
  const role = await node.open({ watchMs: 3_600_000 });
  const outcome = await role.apply(target(files), RUN_ON);
  assert.equal(outcome.how, 'start', outcome.message);
  await role.close();
}

async function applyAndDie(node: TestNode, files: Files, kill: Partial<ApplyOrder>): Promise<void> {
  const order: ApplyOrder = {
    state: node.state,
    files: [...files].map(([path, content]) => [path, String(content)]),
    killAt: kill.killAt ?? null,
    alsoKill: kill.alsoKill ?? null,
    haproxy: kill.haproxy === undefined ? 'haproxy' : await killingHaproxy(node),
    reloadScript: kill.reloadScript === undefined ? null : await killingReload(node),
  };
  const child = spawn(process.execPath, ['--import', 'tsx', SCRIPT, JSON.stringify(order)], { stdio: ['ignore', 'inherit', 'inherit'] });
  const [, signal] = await once(child, 'exit');
  assert.equal(signal, 'SIGKILL', 'the process was to be killed on its way');
}

/** Kills whoever starts it, and then serves. */
function killingHaproxy(node: TestNode): Promise<string> {
  return executable(join(node.state, 'killing-haproxy'), '[ "$1" != -W ] || kill -9 $PPID\nexec haproxy "$@"');
}

function killingReload(node: TestNode): Promise<string> {
  return executable(join(node.state, 'killing-reload'), 'kill -USR2 "$HAPROXY_MASTER_PID"\nkill -9 $PPID');
}

async function executable(path: string, body: string): Promise<string> {
  await writeFile(path, `#!/bin/sh\n${body}\n`);
  await chmod(path, 0o755);
  return path;
}
