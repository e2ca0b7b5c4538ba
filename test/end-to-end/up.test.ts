// `headgate up` as root: what it prints works as printed, its cluster is followed, it takes everything away, and it starts again on what it
// kept, after a kill -9 too.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { until } from '../fixtures/poll.ts';
import { freePorts, noHaproxy } from '../fixtures/run-haproxy.ts';
import { runToEnd, StartedCommand } from './command.ts';
import { namespacesMissing } from './namespace.ts';

const skip = noHaproxy || (await namespacesMissing());

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LAUNCHER = join(ROOT, 'infra/cli/headgate.mjs');
const PORTS = 5;
const PATIENCE_MS = 60_000;

test('up works as printed, follows its cluster, and leaves nothing behind', { skip }, async (t) => {
  const state = await mkdtemp(join(tmpdir(), 'hg-'));
  await chmod(state, 0o711);
  const portBase = await freePortBase();
  const started: StartedCommand[] = [];
  const start = async (): Promise<StartedCommand> => {
    const up = new StartedCommand('up', [process.execPath, LAUNCHER, 'up', '--state', state, '--port-base', String(portBase)]);
    started.push(up);
    await until('up says what to try', () => (up.mustRun(), up.said.includes('Ctrl-C stops everything.')), PATIENCE_MS);
    return up;
  };
  t.after(async () => {
    for (const up of started) await up.stop();
    for (const pid of await processesOf(state)) process.kill(pid, 'SIGKILL');
    await rm(state, { recursive: true, force: true, maxRetries: 5 });
  });

  try {
    const up = await start();
    const namespace = /ip netns exec (\S+)/.exec(up.said)?.[1] ?? '';
    const lines = printedLines(up.said, /^ {2}(?:ip netns exec \S+ )?curl /);
    assert.ok(lines.length > 10, up.said);
    for (const line of lines) assert.equal(await httpStatus(line), '200', line);

    const [web = ''] = lines.filter((line) => line.includes('Host: shop.example.test'));
    const file = join(state, 'cluster/shop-web.yaml');
    await writeFile(file, (await readFile(file, 'utf8')).replace('10.180.0.1]', '10.180.0.77]').replace('10.180.0.2]', '10.180.0.78]'));
    await until('the edited pods answer', async () => /at 10\.180\.0\.7[78]:/.test((await shell(`${web} -s`)).stdout), PATIENCE_MS);

    const commands = printedLines(up.said, /^ {2}npx headgate /);
    assert.equal(commands.length, 5, commands.join('\n'));
    for (const line of commands) {
      const { code, stderr } = await shell(line);
      assert.equal(code, 0, `${line}: ${stderr}`);
    }

    assert.equal(await up.stop('SIGINT'), 0);
    await assertGone(state, namespace);

    const again = await start();
    assert.ok(servedVersion(again) >= 2, `version ${servedVersion(again)} is served again`);
    assert.match((await shell(`${web} -s`)).stdout, /at 10\.180\.0\.7[78]:/);
    again.kill('SIGKILL');
    await again.ended;

    const afterKill = await start();
    assert.equal(servedVersion(afterKill), servedVersion(again));
    assert.equal(await httpStatus(web), '200');
    assert.equal(await afterKill.stop('SIGTERM'), 0);
    await assertGone(state, namespace);
  } catch (error) {
    for (const up of started) process.stderr.write(`--- up\n${up.said}\n`);
    throw error;
  }
});

/** The first of so many ports in a row that are free now. */
async function freePortBase(): Promise<number> {
  for (;;) {
    const [base = 0] = await freePorts(1);
    const others = Array.from({ length: PORTS - 1 }, (_, index) => base + 1 + index);
    if (base + PORTS < 65_536 && (await Promise.all(others.map(isFree))).every(Boolean)) return base;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

function printedLines(said: string, beginning: RegExp): string[] {
  return said
    .split('\n')
    .filter((line) => beginning.test(line))
    .map((line) => line.trim());
}

function shell(line: string): ReturnType<typeof runToEnd> {
  return runToEnd(['sh', '-c', line], { cwd: ROOT });
}

async function httpStatus(line: string): Promise<string> {
  const { stdout, stderr } = await shell(`${line} -s -S -o /dev/null -w '%{http_code}'`);
  return `${stdout}${stderr}`;
}

function servedVersion({ said }: StartedCommand): number {
  return Number(/^Version (\d+) is served/m.exec(said)?.[1]);
}

async function assertGone(state: string, namespace: string): Promise<void> {
  assert.deepEqual(await processesOf(state), []);
  assert.ok(namespace.startsWith('headgate-') && !existsSync(`/run/netns/${namespace}`), `namespace ${namespace}`);
}

/** Processes whose command line names the folder. */
async function processesOf(state: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const named = await Promise.all(
    pids.map(async (pid) => ((await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).includes(state) ? [Number(pid)] : [])),
  );
  return named.flat();
}
