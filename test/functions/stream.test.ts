// The host's side of the stream against clients over real WebSockets, most of them wrong.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { WebSocket } from 'ws';
import { offerText } from '../../functions/offer-text.ts';
import { digestOf } from '../../shared/digest.ts';
import { contentDigest } from '../../shared/manifest.ts';
import { hostMessageSchema, type HostMessage, SUBPROTOCOL } from '../../shared/protocol.ts';
import { MemoryStore } from '../fixtures/memory-store.ts';
import { until } from '../fixtures/poll.ts';
import { startHost, temporaryFolder, TOKEN } from '../fixtures/stream-host.ts';

const FILES = { 'router/config/00-base.cfg': 'one', 'router/state/00': '[]', 'iptables/services/00': '[1]', 'routes/00': 'for people' };
const HELLO = {
  type: 'hello',
  node: 'worker-1',
  roles: ['router'],
  sequence: 0,
  content: { router: null, 'service-proxy': null },
  tools: {},
};

interface Client {
  readonly messages: HostMessage[];
  readonly frames: Buffer[];
  closed: { code: number; reason: string } | null;
  send(message: unknown): void;
  raw: WebSocket;
}

async function world(t: TestContext) {
  const folder = await temporaryFolder(t);
  const tokenFile = join(folder, 'token');
  const memory = new MemoryStore();
  const host = await startHost(t, memory.store, tokenFile);
  const publish = (...publication: Parameters<MemoryStore['publish']>) => {
    const head = memory.publish(...publication);
    host.source.notice();
    return head;
  };
  return { memory, host, publish, tokenFile };
}

async function open(t: TestContext, address: string): Promise<Client> {
  const raw = new WebSocket(address, SUBPROTOCOL, { headers: { authorization: `Bearer ${TOKEN}` } });
  t.after(() => raw.terminate());
  const client: Client = { messages: [], frames: [], closed: null, send: (message) => raw.send(JSON.stringify(message)), raw };
  raw.on('message', (data: Buffer, isBinary) => {
    if (isBinary) client.frames.push(data);
    else client.messages.push(hostMessageSchema.parse(JSON.parse(data.toString('utf8'))));
  });
  raw.on('close', (code, reason) => (client.closed = { code, reason: reason.toString() }));
  raw.on('error', () => undefined);
  await new Promise((resolve, reject) => {
    raw.once('open', resolve);
    raw.once('error', reject);
  });
  return client;
}

/** Why an upgrade was refused. */
function refusal(
  address: string,
  protocols: string[],
  headers: Record<string, string>,
): Promise<{ status: number; type: string; body: string }> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(address, protocols, { headers });
    socket.once('open', () => reject(new Error('it was let in')));
    socket.once('unexpected-response', (_request, response) => {
      let body = '';
      response.on('data', (chunk: Buffer) => (body += chunk.toString('utf8')));
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, type: response.headers['content-type'] ?? '', body });
        socket.terminate();
      });
    });
    socket.on('error', () => undefined);
  });
}

test('an offer holds the head verbatim and the lists of the roles asked for, which the head names', async (t) => {
  const { host, publish, memory } = await world(t);
  const head = publish(FILES);
  const client = await open(t, host.address);
  client.send(HELLO);
  await until('an offer', () => client.messages.length === 1);
  const [offer] = client.messages;
  assert.ok(offer?.type === 'offer');
  assert.equal(offer.head, memory.head?.text);
  assert.deepEqual(Object.keys(offer.files), ['router']);
  assert.equal(offer.files.router?.base, null);
  assert.equal(contentDigest(offer.files.router?.put ?? {}), head.target.content.router);
});

test('wanted blobs come as digest and stored gzip', async (t) => {
  const { host, publish } = await world(t);
  publish(FILES);
  const client = await open(t, host.address);
  client.send(HELLO);
  await until('an offer', () => client.messages.length === 1);
  client.send({ type: 'want', digests: [digestOf('one'), digestOf('[]')] });
  await until('two frames', () => client.frames.length === 2);
  const [frame = Buffer.alloc(0)] = client.frames;
  assert.equal(frame.subarray(0, 32).toString('hex'), digestOf('one'));
  assert.equal(gunzipSync(frame.subarray(32)).toString('utf8'), 'one');
});

test('a node that knows a recent list is offered what changes against it', async (t) => {
  const { host, publish } = await world(t);
  const first = publish(FILES);
  const client = await open(t, host.address);
  client.send(HELLO);
  await until('an offer', () => client.messages.length === 1);
  publish({ 'router/config/00-base.cfg': 'two', 'router/maps/m/00': 'm' });
  await until('a second offer', () => client.messages.length === 2);
  const second = client.messages[1];
  assert.ok(second?.type === 'offer');
  assert.equal(second.files.router?.base, first.target.content.router);
  assert.deepEqual(Object.keys(second.files.router?.put ?? {}), ['router/config/00-base.cfg', 'router/maps/m/00']);
  assert.deepEqual(second.files.router?.remove, ['router/state/00']);

  const returning = await open(t, host.address);
  returning.send({ ...HELLO, sequence: 1, content: { router: first.target.content.router, 'service-proxy': null } });
  await until('an offer', () => returning.messages.length === 1);
  const delta = returning.messages[0];
  assert.ok(delta?.type === 'offer');
  assert.equal(delta.files.router?.base, first.target.content.router);

  const stranger = await open(t, host.address);
  stranger.send({ ...HELLO, sequence: 1, content: { router: 'ab'.repeat(32), 'service-proxy': null } });
  await until('an offer', () => stranger.messages.length === 1);
  const whole = stranger.messages[0];
  assert.ok(whole?.type === 'offer');
  assert.equal(whole.files.router?.base, null);
});

test('a node that has seen a newer head is told so, and offered once the host has caught up', async (t) => {
  const { host, publish } = await world(t);
  publish(FILES);
  await until('the host has the head', () => host.source.current !== null);
  const client = await open(t, host.address);
  client.send({ ...HELLO, sequence: 2 });
  await until('ahead', () => client.messages.length === 1);
  assert.deepEqual(client.messages[0], { type: 'ahead', sequence: 1 });
  publish(FILES);
  await until('an offer', () => client.messages.length === 2);
  assert.equal(client.messages[1]?.type, 'offer');
});

test('a node of another store is offered the head whatever its sequence, so that it can say what is wrong', async (t) => {
  const { host, publish } = await world(t);
  publish(FILES);
  await until('the host has the head', () => host.source.current !== null);
  const client = await open(t, host.address);
  client.send({ ...HELLO, sequence: 7, store: 'another' });
  await until('an offer', () => client.messages.length === 1);
  assert.equal(client.messages[0]?.type, 'offer');
});

test('a node that connects before there is any head is offered the first one', async (t) => {
  const { host, publish } = await world(t);
  const client = await open(t, host.address);
  client.send(HELLO);
  await until('the host knows the node', () => host.hellos.length === 1);
  assert.deepEqual(client.messages, []);
  publish(FILES);
  await until('an offer', () => client.messages.length === 1);
});

test('a blob that is gone ends the offer, and a newer one follows', async (t) => {
  const { host, publish, memory } = await world(t);
  publish(FILES);
  const client = await open(t, host.address);
  client.send(HELLO);
  await until('an offer', () => client.messages.length === 1);
  memory.blobs.delete(digestOf('one'));
  client.send({ type: 'want', digests: [digestOf('one'), digestOf('[]')] });
  await until('gone', () => client.messages.length === 2);
  assert.deepEqual(client.messages[1], { type: 'gone', digests: [digestOf('one')] });
  publish({ 'router/config/00-base.cfg': 'two' });
  await until('an offer', () => client.messages.length === 3);
  assert.deepEqual(client.frames, []);
});

test('without a valid token there is no stream; the file is read for each connection', async (t) => {
  const { host, tokenFile } = await world(t);
  for (const headers of [
    {},
    { authorization: 'Bearer wrong' },
    { authorization: `Basic ${TOKEN}` },
    { authorization: `Bearer ${TOKEN}x` },
  ]) {
    const { status, type, body } = await refusal(host.address, [SUBPROTOCOL], headers);
    assert.equal(status, 401);
    assert.equal(type, 'application/problem+json');
    assert.equal(JSON.parse(body).code, 'bad-token');
    assert.ok(!body.includes(TOKEN));
  }
  await writeFile(tokenFile, 'another\n');
  assert.equal((await refusal(host.address, [SUBPROTOCOL], { authorization: `Bearer ${TOKEN}` })).status, 401);
  await writeFile(tokenFile, '\n');
  assert.equal((await refusal(host.address, [SUBPROTOCOL], { authorization: 'Bearer ' })).status, 401, 'an empty file lets nobody in');
  await writeFile(tokenFile, `another\n${TOKEN}\n`);
  await open(t, host.address);
});

test('the subprotocol is required', async (t) => {
  const { host } = await world(t);
  const { status, body } = await refusal(host.address, ['headgate.v9'], { authorization: `Bearer ${TOKEN}` });
  assert.equal(status, 400);
  assert.equal(JSON.parse(body).code, 'bad-subprotocol');
});

const result = {
  type: 'result',
  sequence: 1,
  version: 1,
  outcome: 'applied',
  how: 'reload',
  stage: null,
  message: '',
  durationMs: 1,
  time: 'now',
};

for (const [what, messages, code] of [
  ['text that is no JSON', ['{'], 1008],
  ['a message of an unknown type', [{ type: 'give' }], 1008],
  ['a want before hello', [{ type: 'want', digests: [] }], 1008],
  ['a second hello', [HELLO, HELLO], 1008],
  ['a node name that is none', [{ ...HELLO, node: '../x' }], 1008],
  ['a want of a blob that was not offered', [HELLO, { type: 'want', digests: ['00'.repeat(32)] }], 1008],
  ['a want of a blob of another role', [HELLO, { type: 'want', digests: [digestOf('[1]')] }], 1008],
  ['a want of what is for people', [HELLO, { type: 'want', digests: [digestOf('for people')] }], 1008],
  ['a result of a role that it does not have', [HELLO, { ...result, role: 'service-proxy' }], 1008],
  ['a message above the limit', [`"${'x'.repeat(1024 * 1024)}"`], 1009],
] as const) {
  test(`the stream is closed on ${what}`, async (t) => {
    const { host, publish } = await world(t);
    publish(FILES);
    await until('the host has the head', () => host.source.current !== null);
    const client = await open(t, host.address);
    for (const message of messages) {
      if (typeof message === 'string') client.raw.send(message);
      else client.send(message);
      // A want is judged by what was offered: let the offer come first.
      if (message === HELLO) await until('an offer', () => client.messages.length > 0);
    }
    await until('it is closed', () => client.closed !== null);
    assert.equal(client.closed?.code, code);
    assert.deepEqual(client.frames, []);
    assert.deepEqual(host.results, []);
  });
}

test('a node that breaks the protocol disturbs no other', async (t) => {
  const { host, publish } = await world(t);
  publish(FILES);
  const good = await open(t, host.address);
  good.send(HELLO);
  const bad = await open(t, host.address);
  bad.raw.send('nonsense');
  await until('the bad one is closed', () => bad.closed !== null);
  publish({ 'router/config/00-base.cfg': 'two' });
  await until('the good one is offered both', () => good.messages.length === 2);
});

test('nodes that hold the same are sent the same text, made once', async (t) => {
  const { host, publish } = await world(t);
  publish(FILES);
  await until('the head is read', () => host.source.current !== null);
  const offering = host.source.current;
  assert.ok(offering !== null);
  let asked = 0;
  const source = {
    listOf: (...of: Parameters<typeof host.source.listOf>) => {
      asked += 1;
      return host.source.listOf(...of);
    },
  };
  const known = offering.revision.head.target.content.router;
  const first = offerText(offering, ['router'], () => known, source);
  const asOnce = asked;
  assert.equal(
    offerText(offering, ['router'], () => known, source),
    first,
  );
  assert.ok(asked - asOnce < asOnce, 'the list was not compared again');
  assert.deepEqual(JSON.parse(first).files.router, { base: known, put: {}, remove: [] });
  assert.notEqual(
    offerText(offering, ['router', 'service-proxy'], () => null, source),
    first,
  );
});
