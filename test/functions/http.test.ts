// The handler over every endpoint, without a server: what is answered, and to whom.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { HeadSource } from '../../functions/head-source.ts';
import { type HttpRequest, type HttpResponse, httpHandler } from '../../functions/http.ts';
import { accessCheck } from '../../functions/http/access.ts';
import { healthEndpoints } from '../../functions/http/health.ts';
import { nodeEndpoints } from '../../functions/http/nodes.ts';
import { operatorEndpoints, type RollbackRequest } from '../../functions/http/operate.ts';
import { triggerEndpoints } from '../../functions/http/triggers.ts';
import { digestOf } from '../../shared/digest.ts';
import { HeadgateError } from '../../shared/error.ts';
import type { Hello, Result } from '../../shared/protocol.ts';
import { MemoryStore } from '../fixtures/memory-store.ts';
import { until } from '../fixtures/poll.ts';
import { SILENT, temporaryFolder } from '../fixtures/stream-host.ts';

const FILES = { 'router/a': 'one', 'iptables/b': 'two', 'routes/00': 'for people' };

async function world(t: TestContext, operatorToken: string | null = null) {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'nodes'), 'node-token\n');
  if (operatorToken !== null) await writeFile(join(folder, 'operators'), operatorToken);
  const memory = new MemoryStore();
  const head = memory.publish(FILES);
  const source = new HeadSource({ store: memory.store, logger: SILENT, pollMs: 20 });
  source.start();
  t.after(() => source.close());
  await until('the head is read', () => source.current !== null);
  const marks: number[] = [];
  const reconciles: string[] = [];
  const rollbacks: RollbackRequest[] = [];
  const hellos: Hello[] = [];
  const results: Result[] = [];
  const state = {
    ready: true,
    reasons: [] as string[],
    published: { version: 3, sequence: 4, changed: true } as { version: number; sequence: number; changed: boolean } | null,
  };
  const triggers = {
    mark: async (delayMs: number) => void marks.push(delayMs),
    reconcile: async (trigger: string) => {
      reconciles.push(trigger);
      return state.published;
    },
  };
  const operations = {
    versions: async () => [{ number: 1 }],
    version: async (number: number) => {
      if (number > 1) throw new HeadgateError('unknown-version', 'usage', `there is no version ${number}`);
      return { number };
    },
    diff: async (from: number, to: number) => ({ from, to }),
    rollback: async (request: RollbackRequest) => (rollbacks.push(request), { version: 2 }),
    resume: async () => {
      throw new Error('a secret word');
    },
    fleet: async () => [],
  };
  const reports = {
    connected: (hello: Hello) => void hellos.push(hello),
    result: (_node: string, result: Result) => void results.push(result),
    disconnected: () => undefined,
  };
  const handle = httpHandler(
    [
      ...triggerEndpoints(triggers),
      ...operatorEndpoints(operations),
      ...nodeEndpoints({ store: memory.store, source, reports }),
      ...healthEndpoints({ readiness: () => ({ ready: state.ready, reasons: state.reasons }), metrics: () => 'metric 1\n' }),
    ],
    accessCheck({ tokenFile: join(folder, 'nodes'), operatorTokenFile: operatorToken === null ? null : join(folder, 'operators') }),
    SILENT,
  );
  const ask = (method: string, path: string, body: unknown = '', more: Partial<HttpRequest> = {}): Promise<HttpResponse> => {
    const rawBody = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
    return handle({ method, path, headers: {}, rawBody, peer: '127.0.0.1', ...more });
  };
  return { ask, head, marks, reconciles, rollbacks, hellos, results, state, memory };
}

const json = (response: HttpResponse) => JSON.parse(Buffer.from(response.body).toString('utf8'));
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
const review = (request: object, apiVersion = 'admission.k8s.io/v1') => ({ apiVersion, kind: 'AdmissionReview', request });

function assertProblem(response: HttpResponse, status: number, code: string): void {
  assert.equal(response.status, status);
  assert.equal(response.headers['content-type'], 'application/problem+json');
  const problem = json(response);
  assert.deepEqual([problem.status, problem.code, typeof problem.detail, typeof problem.title], [status, code, 'string', 'string']);
}

test('any POST to /reconcile reconciles and says what came of it', async (t) => {
  const { ask, reconciles, state, marks } = await world(t);
  for (const body of ['', 'no json', '{}', '[1]', 'null', { kind: 'EventList', items: [] }]) {
    const response = await ask('POST', '/reconcile', body, { peer: '10.0.0.9' });
    assert.equal(response.status, 200);
    assert.deepEqual(json(response), { version: 3, sequence: 4, changed: true });
  }
  state.published = null;
  assert.equal((await ask('POST', '/reconcile')).status, 202);
  assert.equal(reconciles.length, 7);
  assert.deepEqual(marks, []);
});

test('a CloudEvent is answered without a body, which would be an event in reply', async (t) => {
  const { ask, reconciles, state } = await world(t);
  const binary = await ask('POST', '/reconcile', '{}', { headers: { 'ce-type': 'dev.knative.apiserver.resource.update', 'ce-id': '1' } });
  const structured = await ask('POST', '/reconcile', '{}', { headers: { 'content-type': 'application/cloudevents+json; charset=utf-8' } });
  state.published = null;
  const later = await ask('POST', '/reconcile', '{}', { headers: { 'ce-type': 'x' } });
  assert.deepEqual([binary.status, structured.status, later.status], [204, 204, 202]);
  assert.deepEqual([binary.body, structured.body, later.body], ['', '', '']);
  assert.deepEqual(new Set(reconciles), new Set(['cloud-event']));
});

for (const path of ['/reconcile', '/admit']) {
  test(`an AdmissionReview to ${path} only marks, for when the object is stored, and is allowed`, async (t) => {
    const { ask, marks, reconciles } = await world(t);
    const response = await ask('POST', path, review({ uid: 'u-1', object: null, oldObject: {} }));
    assert.equal(response.status, 200);
    assert.deepEqual(json(response), {
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'u-1', allowed: true },
    });
    assert.deepEqual(marks, [2_000]);
    const dry = await ask('POST', path, review({ uid: 'u-2', dryRun: true }, 'admission.k8s.io/v1beta1'));
    assert.equal(json(dry).response.uid, 'u-2');
    assert.equal(json(dry).apiVersion, 'admission.k8s.io/v1beta1');
    assert.equal(marks.length, 1, 'a dry run changes nothing');
    assert.deepEqual(reconciles, []);
    assertProblem(await ask('POST', path, review({})), 400, 'bad-admission-review');
  });
}

test('what operators ask for is answered on the same machine only, and not to what is passed on', async (t) => {
  const { ask, rollbacks } = await world(t);
  for (const path of ['/versions', '/versions/1', '/diff?from=1&to=2', '/fleet']) {
    assert.equal((await ask('GET', path)).status, 200, path);
    for (const peer of ['::1', '::ffff:127.0.0.1', '127.9.9.9']) assert.equal((await ask('GET', path, '', { peer })).status, 200, peer);
    for (const peer of ['10.0.0.1', '::ffff:10.0.0.1', 'fe80::1', null]) {
      assertProblem(await ask('GET', path, '', { peer, ...bearer('node-token') }), 403, 'loopback-only');
    }
    for (const header of ['origin', 'x-forwarded-for', 'forwarded', 'via']) {
      assertProblem(await ask('GET', path, '', { headers: { [header]: 'x' } }), 403, 'loopback-only');
    }
  }
  const rollback = { version: 1, reason: 'test' };
  assertProblem(await ask('POST', '/rollback', rollback, { peer: '10.0.0.1' }), 403, 'loopback-only');
  assert.deepEqual(rollbacks, []);
  assert.equal((await ask('POST', '/rollback', rollback)).status, 200);
  assert.deepEqual(rollbacks, [{ ...rollback, freeze: false, author: 'operator' }]);
});

test('with an operator token, that token and no other lets in, from anywhere', async (t) => {
  const { ask } = await world(t, 'operator-token');
  const allowed = await ask('GET', '/versions', '', { peer: '10.0.0.1', ...bearer('operator-token') });
  assert.deepEqual([allowed.status, json(allowed)], [200, [{ number: 1 }]]);
  for (const headers of [{}, bearer('node-token').headers, bearer('x').headers]) {
    const refused = await ask('GET', '/versions', '', { headers });
    assertProblem(refused, 401, 'bad-token');
    assert.equal(refused.headers['www-authenticate'], 'Bearer');
  }
});

test('a wrong question to an operator endpoint says what was expected', async (t) => {
  const { ask, rollbacks } = await world(t);
  for (const body of [
    '',
    '{',
    {},
    { version: 0, reason: 'x' },
    { version: 1 },
    { version: 1, reason: '' },
    { version: 1, reason: 'x', force: true },
  ]) {
    assertProblem(await ask('POST', '/rollback', body), 400, 'bad-request');
  }
  assertProblem(await ask('POST', '/rollback', { version: 1, reason: 'x', author: 'reconcile' }), 400, 'bad-request');
  for (const query of ['', '?from=1', '?from=a&to=2', '?from=0&to=1']) assertProblem(await ask('GET', `/diff${query}`), 400, 'bad-request');
  assertProblem(await ask('GET', '/versions/9'), 404, 'unknown-version');
  assert.deepEqual(rollbacks, []);
});

test('an error that nobody foresaw is a problem without its words', async (t) => {
  const { ask } = await world(t);
  const response = await ask('POST', '/resume');
  assertProblem(response, 500, 'internal');
  assert.doesNotMatch(Buffer.from(response.body).toString('utf8'), /secret/);
});

test('nodes read the head by its tag, and blobs that it names', async (t) => {
  const { ask, head, memory } = await world(t);
  const token = bearer('node-token');
  const first = await ask('GET', '/head', '', token);
  assert.equal(first.status, 200);
  assert.equal(first.body, memory.head?.text);
  const etag = first.headers['etag'] ?? '';
  const same = await ask('GET', '/head', '', { headers: { ...token.headers, 'if-none-match': etag } });
  assert.deepEqual([same.status, same.body], [304, '']);
  const blob = await ask('GET', `/blobs/0/${digestOf('one')}`, '', token);
  assert.deepEqual(Buffer.from(blob.body), memory.blobs.get(digestOf('one')));
  assertProblem(await ask('GET', `/blobs/0/${digestOf('for people')}`, '', token), 404, 'no-such-blob');
  assertProblem(await ask('GET', `/blobs/1/${digestOf('one')}`, '', token), 404, 'no-such-blob');
  assertProblem(await ask('GET', `/blobs/0/${'ab'.repeat(32)}`, '', token), 404, 'no-such-blob');
  assertProblem(await ask('GET', `/blobs/0/../../token`, '', token), 404, 'no-such-path');
  for (const path of ['/head', `/blobs/0/${digestOf('one')}`]) assertProblem(await ask('GET', path), 401, 'bad-token');
  assert.ok(head.target.number);
});

test('nodes report what the stream would have said', async (t) => {
  const { ask, hellos, results } = await world(t);
  const hello = { type: 'hello', node: 'n', roles: ['router'], sequence: 1, content: { router: null, 'service-proxy': null }, tools: {} };
  const result = {
    type: 'result',
    role: 'router',
    sequence: 1,
    version: 1,
    outcome: 'applied',
    how: 'reload',
    stage: null,
    message: '',
    durationMs: 1,
    time: 'now',
  };
  assertProblem(await ask('POST', '/report', { hello, results: [result] }), 401, 'bad-token');
  assert.equal((await ask('POST', '/report', { hello, results: [result] }, bearer('node-token'))).status, 204);
  assert.deepEqual([hellos, results], [[hello], [result]]);
  assertProblem(await ask('POST', '/report', { hello, results: ['x'] }, bearer('node-token')), 400, 'bad-report');
});

test('health, readiness and metrics are open', async (t) => {
  const { ask, state } = await world(t);
  const peer = { peer: '10.0.0.1' };
  assert.equal((await ask('GET', '/healthz', '', peer)).status, 200);
  assert.equal((await ask('GET', '/readyz', '', peer)).status, 200);
  state.reasons.push('the folder does not parse');
  assert.equal((await ask('GET', '/readyz', '', peer)).body, 'ready\nthe folder does not parse\n');
  state.ready = false;
  const unready = await ask('GET', '/readyz', '', peer);
  assertProblem(unready, 503, 'not-ready');
  assert.match(json(unready).detail, /does not parse/);
  assert.equal((await ask('GET', '/metrics', '', peer)).body, 'metric 1\n');
});

test('unknown paths and methods are problems', async (t) => {
  const { ask } = await world(t);
  for (const path of ['/', '/nothing', '/versions/', '/versions/01', '/reconcile/x', '/HEAD', '//head']) {
    assertProblem(await ask('GET', path), 404, 'no-such-path');
  }
  const wrong = await ask('DELETE', '/rollback');
  assertProblem(wrong, 405, 'wrong-method');
  assert.equal(wrong.headers['allow'], 'POST');
});
