// A node against a host that lies: nothing wrong may be kept or applied, and the node goes on once the host is right.

import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type WebSocket, WebSocketServer } from 'ws';
import { digestOf } from '../../shared/digest.ts';
import type { Head } from '../../shared/head.ts';
import { headText } from '../../shared/head.ts';
import { contentDigest, type NodeFile } from '../../shared/manifest.ts';
import { type NodeMessage, nodeMessageSchema, SUBPROTOCOL } from '../../shared/protocol.ts';
import { MemoryStore } from '../fixtures/memory-store.ts';
import { until } from '../fixtures/poll.ts';
import { RecordingRole } from '../fixtures/recording-role.ts';
import { startHost, startNode, temporaryFolder } from '../fixtures/stream-host.ts';

const FILES = { 'router/config/00-base.cfg': 'one' };

async function world(t: TestContext) {
  const folder = await temporaryFolder(t);
  const tokenFile = join(folder, 'token');
  await writeFile(tokenFile, 'token');
  const router = new RecordingRole('router');
  return { folder, tokenFile, router, state: join(folder, 'state') };
}

/** A host that says whatever the test wants. */
async function lyingHost(t: TestContext) {
  const server = createServer();
  const sockets = new WebSocketServer({ server, handleProtocols: () => SUBPROTOCOL });
  const sessions: { socket: WebSocket; messages: NodeMessage[]; closed: boolean }[] = [];
  sockets.on('connection', (socket) => {
    const session = { socket, messages: [] as NodeMessage[], closed: false };
    sessions.push(session);
    socket.on('message', (data: Buffer) => session.messages.push(nodeMessageSchema.parse(JSON.parse(data.toString('utf8')))));
    socket.on('close', () => (session.closed = true));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
    server.close();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { address: `ws://127.0.0.1:${address.port}/stream`, sessions };
}

const entry = (content: string): NodeFile => ({ digest: digestOf(content), size: Buffer.byteLength(content) });

function headOf(files: Record<string, NodeFile>, change: Partial<Head> = {}): string {
  const head = new MemoryStore().publish(FILES);
  const target = { ...head.target, content: { router: contentDigest(files), 'service-proxy': contentDigest({}) } };
  return headText({ ...head, target, ...change });
}

const offer = (head: string, put: Record<string, NodeFile>) => ({
  type: 'offer',
  head,
  files: { router: { base: null, put, remove: [] } },
});
const frame = (digest: string, stored: Uint8Array): Buffer => Buffer.concat([Buffer.from(digest, 'hex'), stored]);

for (const [what, lie] of [
  ['a path that leaves the folder', offer(headOf({ 'router/../../x': entry('one') }), { 'router/../../x': entry('one') })],
  ['an absolute path', offer(headOf({ '/etc/passwd': entry('one') }), { '/etc/passwd': entry('one') })],
  ['a path of another role', offer(headOf({ 'iptables/services/00': entry('one') }), { 'iptables/services/00': entry('one') })],
  ['a list that the head does not name', offer(headOf({ 'router/a': entry('one') }), { 'router/a': entry('two') })],
  ['no list for a role', { type: 'offer', head: headOf({}), files: {} }],
  ['a base that is not held', { type: 'offer', head: headOf({}), files: { router: { base: 'ab'.repeat(32), put: {}, remove: [] } } }],
  ['a head that is none', offer('{}', {})],
  ['a message that is none', { type: 'surprise' }],
] as const) {
  test(`a node takes nothing from an offer with ${what}`, async (t) => {
    const { tokenFile, router, state } = await world(t);
    const host = await lyingHost(t);
    await startNode(t, [router], { addresses: [host.address], state, tokenFile });
    await until('hello', () => host.sessions[0]?.messages[0]?.type === 'hello');
    host.sessions[0]?.socket.send(JSON.stringify(lie));
    await until('the node leaves and comes back', () => host.sessions[0]?.closed === true && host.sessions.length > 1);
    assert.deepEqual(router.asked, []);
    assert.deepEqual(await readdir(join(state, 'roles')), []);
    await assert.rejects(readFile(join(state, 'seen.json')), { code: 'ENOENT' });
  });
}

const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024));

for (const [what, stored] of [
  ['inflates beyond its size', bomb],
  ['is something else', gzipSync('two')],
  ['is no gzip', Buffer.from('one')],
  ['is cut off', gzipSync('one').subarray(0, 15)],
  ['is padded', Buffer.concat([gzipSync('one'), Buffer.alloc(1024 * 1024)])],
] as const) {
  test(`a node does not keep a blob that ${what}`, async (t) => {
    const { tokenFile, router, state } = await world(t);
    const host = await lyingHost(t);
    await startNode(t, [router], { addresses: [host.address], state, tokenFile });
    await until('hello', () => host.sessions[0]?.messages[0]?.type === 'hello');
    const files = { 'router/a': entry('one') };
    host.sessions[0]?.socket.send(JSON.stringify(offer(headOf(files), files)));
    await until('want', () => host.sessions[0]?.messages.some(({ type }) => type === 'want') === true);
    assert.equal(JSON.parse(await readFile(join(state, 'seen.json'), 'utf8')).sequence, 1, 'the sequence is on disk before the fetch');
    host.sessions[0]?.socket.send(frame(digestOf('one'), stored));
    await until('the node leaves and comes back', () => host.sessions[0]?.closed === true && host.sessions.length > 1);
    assert.deepEqual(await readdir(join(state, 'blobs')), []);
    assert.deepEqual(router.asked, []);
  });
}

test('a blob that was not asked for is not kept', async (t) => {
  const { tokenFile, router, state } = await world(t);
  const host = await lyingHost(t);
  await startNode(t, [router], { addresses: [host.address], state, tokenFile });
  await until('hello', () => host.sessions[0]?.messages[0]?.type === 'hello');
  const files = { 'router/a': entry('one') };
  host.sessions[0]?.socket.send(JSON.stringify(offer(headOf(files), files)));
  host.sessions[0]?.socket.send(frame(digestOf('two'), gzipSync('two')));
  host.sessions[0]?.socket.send(frame(digestOf('one'), gzipSync('one')));
  await until('it runs', () => router.running !== null);
  assert.deepEqual(await readdir(join(state, 'blobs')), [digestOf('one')]);
});

test('a head of another store is refused', async (t) => {
  const { tokenFile, router, state } = await world(t);
  const memory = new MemoryStore();
  const host = await startHost(t, memory.store, tokenFile);
  memory.publish(FILES);
  await startNode(t, [router], { addresses: [host.address], state, tokenFile });
  await until('it runs', () => router.running !== null);
  memory.publish({ 'router/config/00-base.cfg': 'foreign' }, { store: 'another' });
  await until('the node leaves and comes back', () => host.hellos.length > 1);
  assert.equal(router.asked.length, 1);
  memory.publish({ 'router/config/00-base.cfg': 'two' });
  await until('it follows its own store again', () => router.running?.['router/config/00-base.cfg'] === 'two');
});

test('a head older than what was seen is refused', async (t) => {
  const { tokenFile, router, state } = await world(t);
  const host = await lyingHost(t);
  await startNode(t, [router], { addresses: [host.address], state, tokenFile });
  await until('hello', () => host.sessions[0]?.messages[0]?.type === 'hello');
  const files = { 'router/a': entry('one') };
  const send = (head: string): void => host.sessions[0]?.socket.send(JSON.stringify(offer(head, files)));
  send(headOf(files, { sequence: 7 }));
  host.sessions[0]?.socket.send(frame(digestOf('one'), gzipSync('one')));
  await until('it runs', () => router.running !== null);
  send(headOf(files, { sequence: 6 }));
  await until('the node leaves', () => host.sessions[0]?.closed === true);
  await until('the node comes back and says what it has seen', () => {
    const hello = host.sessions[1]?.messages[0];
    return hello?.type === 'hello' && hello.sequence === 7;
  });
});

test('after a list that it could not use, a node asks for the whole one', async (t) => {
  const { tokenFile, router, state } = await world(t);
  const host = await lyingHost(t);
  await startNode(t, [router], { addresses: [host.address], state, tokenFile });
  await until('hello', () => host.sessions[0]?.messages[0]?.type === 'hello');
  const files = { 'router/a': entry('one') };
  host.sessions[0]?.socket.send(JSON.stringify(offer(headOf(files), files)));
  host.sessions[0]?.socket.send(frame(digestOf('one'), gzipSync('one')));
  await until('it runs', () => router.running !== null);
  const wrong = {
    type: 'offer',
    head: headOf(files, { sequence: 2 }),
    files: { router: { base: 'ab'.repeat(32), put: files, remove: [] } },
  };
  host.sessions[0]?.socket.send(JSON.stringify(wrong));
  await until('the node comes back without a base', () => {
    const hello = host.sessions[1]?.messages[0];
    return hello?.type === 'hello' && hello.content.router === null;
  });
});

test('a node goes to the next address when one does not answer or lets it not in', async (t) => {
  const { folder, tokenFile, router, state } = await world(t);
  const memory = new MemoryStore();
  memory.publish(FILES);
  const strict = await startHost(t, memory.store, join(folder, 'other-token'));
  await writeFile(join(folder, 'other-token'), 'another token');
  const host = await startHost(t, memory.store, tokenFile);
  const addresses = ['ws://127.0.0.1:1/stream', strict.address, host.address];
  await startNode(t, [router], { addresses, state, tokenFile });
  await until('it runs', () => router.running !== null);
  assert.equal(strict.hellos.length, 0);
});

test('a node whose token file is not there yet connects when it is', async (t) => {
  const { folder, tokenFile, router, state } = await world(t);
  const memory = new MemoryStore();
  memory.publish(FILES);
  const host = await startHost(t, memory.store, tokenFile);
  const late = join(folder, 'late');
  await startNode(t, [router], { addresses: [host.address], state, tokenFile: late });
  await writeFile(late, await readFile(tokenFile));
  await until('it runs', () => router.running !== null);
});
