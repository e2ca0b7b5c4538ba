// The socket's protocol, against a server that answers as HAProxy was seen to, byte for byte and in awkward pieces.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { createLogger } from '../../../shared/logger.ts';
import { commandWord } from '../../../sidecar/haproxy/runtime-command.ts';
import { ask, LONGEST_COMMAND, RuntimeSocket } from '../../../sidecar/haproxy/runtime-socket.ts';

const LOGGER = createLogger('silent');

async function served(t: TestContext, onText: (text: string, socket: Socket) => void): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `hg-socket-${process.pid}-`));
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.setEncoding('utf8').on('data', (text: string) => onText(text, socket));
    socket.on('error', () => undefined);
  });
  const path = join(folder, 's');
  await new Promise<void>((resolve) => server.listen(path, resolve));
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    await rm(folder, { recursive: true });
  });
  return path;
}

async function dribble(socket: Socket, bytes: string): Promise<void> {
  for (let at = 0; at < bytes.length; at += 1) {
    socket.write(bytes.charAt(at));
    await setTimeout(1);
  }
}

test('replies are told apart however they arrive, with payload prompts and a missing blank line', async (t) => {
  const bytes = '\n> New server registered.\n\n> \n> + + + \n> Server deleted.\n> ';
  let heard = '';
  const path = await served(t, (text, socket) => {
    heard += text;
    if (heard === 'prompt\n') socket.write(bytes.slice(0, 3));
    if (!heard.endsWith('last\n')) return;
    void dribble(socket, bytes.slice(3));
  });
  const session = await RuntimeSocket.open(path, LOGGER);
  const replies = await Promise.all(['one', 'two', 'three <<\nk v\n', 'last'].map((text) => session.command(text)));
  assert.deepEqual(replies, ['New server registered.', '', '', 'Server deleted.']);
  session.close();
});

test('at most a hundred commands are under way', async (t) => {
  let asked = 0;
  let most = 0;
  let replied = 0;
  const path = await served(t, (text, socket) => {
    asked += text.split('\n').length - 1;
    most = Math.max(most, asked - replied);
    setImmediate(() => {
      const due = asked - replied;
      replied = asked;
      socket.write('\n> '.repeat(due));
    });
  });
  const session = await RuntimeSocket.open(path, LOGGER);
  const replies = await Promise.all(Array.from({ length: 1000 }, () => session.command('x')));
  assert.deepEqual([replies.length, asked], [1000, 1001]);
  assert.ok(most > 1 && most <= 100, String(most));
  session.close();
});

test('a cut session fails what is under way and what comes after', async (t) => {
  const path = await served(t, (text, socket) => (text.startsWith('prompt') ? socket.write('\n> ') : socket.destroy()));
  const session = await RuntimeSocket.open(path, LOGGER);
  await assert.rejects(session.command('x'), { code: 'haproxy-socket' });
  await assert.rejects(session.command('y'), { code: 'haproxy-socket' });
});

test('silence is told from absence', async (t) => {
  const path = await served(t, () => undefined);
  await assert.rejects(ask(path, 'show info', 50), { code: 'haproxy-silent' });
  await assert.rejects(ask(`${path}-not`, 'show info'), { code: 'haproxy-socket' });
  await assert.rejects(RuntimeSocket.open(path, LOGGER, 50), { code: 'haproxy-socket', message: /no reply within 50 ms/ });
});

test('a command that HAProxy would drop is not sent', async (t) => {
  const path = await served(t, (_, socket) => socket.write('\n> '));
  const session = await RuntimeSocket.open(path, LOGGER);
  await assert.rejects(session.command('x'.repeat(LONGEST_COMMAND + 1)), { code: 'command-too-long' });
  session.close();
});

test('words of a command', () => {
  assert.equal(commandWord('a;b\\c d'), 'a\\;b\\\\c\\ d');
});
