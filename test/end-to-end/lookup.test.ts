// Which backend a request gets: real HAProxy with the rendered frontend and maps against an oracle that goes through the routes
// one by one, as the rules are written. The maps are shuffled: entries have no order.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import type { AdmittedRoute, InsecurePolicy, Termination } from '../../functions/router/configuration.ts';
import { freePorts, noHaproxy, whileServing } from '../fixtures/run-haproxy.ts';
import { composed, configuration, options, route, selfSigned } from '../functions/router/fixtures.ts';
import { cases } from '../fixtures/cases.ts';

/** Stands in for ours: answers with the name of the backend that was found. */
const NAMING_BACKEND = 'backend {{word name}}\n  http-request return status 200 hdr X-Answer {{quoted name}}\n{{servers}}\n\n';

const SEGMENTS = [
  'a',
  'ab',
  'a.b',
  'a%2Fb',
  '%41',
  'x"y',
  "it's",
  'back\\slash',
  'a+b',
  '(c)',
  '$HOME',
  '${x}',
  'é',
  '日本',
  '~',
  '*',
  ';',
  '#',
  ',',
  '{',
  '|',
];

interface Request {
  readonly host: string;
  readonly target: string;
}

test(`${cases(10_000, 100_000)} random requests get the backends that the rules name`, { skip: noHaproxy, timeout: 120_000 }, async () => {
  const random = randomFrom(20_260_101);
  const routes = randomRoutes(random, 400);
  const [httpPort = 0, httpsPort = 0, statsPort = 0] = await freePorts(3);
  const configured = configuration(routes, {
    options: options({ httpPort, httpsPort, statsPort, templates: { backend: NAMING_BACKEND } }),
  });
  const files = composed(configured, new Map(), new Map([['router/certificates/default.pem', await selfSigned('example.com')]]));
  for (const map of ['http', 'https']) {
    const lines = String(files.get(`router/maps/${map}.map`))
      .split('\n')
      .filter((line) => line !== '');
    files.set(`router/maps/${map}.map`, `${shuffled(lines, random).join('\n')}\n`);
  }
  await whileServing(files, httpPort, async () => {
    await compareAnswers(
      randomRequests(random, routes, cases(8_000, 80_000)),
      (request) => expected(request, routes, 'http'),
      () => connect(httpPort, '127.0.0.1'),
    );
    await compareAnswers(
      randomRequests(random, routes, cases(2_000, 20_000)),
      (request) => expected(request, routes, 'https'),
      () => connectTls({ port: httpsPort, host: '127.0.0.1', rejectUnauthorized: false }),
    );
  });
});

async function compareAnswers(requests: readonly Request[], oracle: (request: Request) => string, open: () => Socket): Promise<void> {
  const expectations = requests.map(oracle);
  const answers = await ask(requests, open);
  const wrong = requests.flatMap((request, index) =>
    answers[index] === expectations[index] ? [] : [{ ...request, expected: expectations[index], got: answers[index] }],
  );
  assert.deepEqual(wrong.slice(0, 5), [], `${wrong.length} of ${requests.length} are wrong`);
  const found = expectations.filter((answer) => /^(?:be_|302)/.test(answer)).length;
  assert.ok(found > requests.length / 3 && found < requests.length, `${found} of ${requests.length} requests find a route`);
}

/** The rules, route by route. */
function expected({ host: header, target }: Request, routes: readonly AdmittedRoute[], frontend: 'http' | 'https'): string {
  if (/[^!-~]/.test(target) || target.includes('#')) return '400';
  const host = header.toLowerCase().replace(/:\d*$/, '').replace(/\.+$/, '');
  if (/[/?*,]/.test(host) || host.startsWith('.')) return '400';
  const path = target.split('?')[0] ?? '';
  const served = routes.filter((candidate) => answerOf(candidate, frontend) !== null && pathFits(candidate.path, path));
  const exact = served.filter((candidate) => !candidate.wildcard && candidate.host === host);
  const parent = host.split('.').slice(1).join('.');
  const wildcard = served.filter((candidate) => candidate.wildcard && candidate.host === parent);
  const best = (exact.length > 0 ? exact : wildcard).sort((a, b) => b.path.length - a.path.length)[0];
  if (best === undefined) return '503';
  const answer = answerOf(best, frontend);
  return answer === 'redirect' ? `302 https://${host}${target}` : (answer ?? '');
}

function answerOf({ termination, insecure, namespace, name }: AdmittedRoute, frontend: 'http' | 'https'): string | null {
  if (termination === 'http') return frontend === 'http' ? `be_http:${namespace}:${name}` : null;
  if (frontend === 'http' && insecure !== 'allow') return insecure === 'redirect' ? 'redirect' : null;
  return `${termination === 'edge' ? 'be_edge_http' : 'be_secure'}:${namespace}:${name}`;
}

function pathFits(prefix: string, path: string): boolean {
  if (prefix === '' || path === prefix) return true;
  return path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`);
}

/** Few hosts and short paths, so that routes overlap; host, path and wildcard are unique together. */
function randomRoutes(random: Random, count: number): AdmittedRoute[] {
  const routes = new Map<string, AdmittedRoute>();
  while (routes.size < count) {
    const wildcard = random(4) === 0;
    const host = pick(random, [
      'example.com',
      'a.example.com',
      'b.a.example.com',
      'www.example.com',
      'example.com.au',
      'xn--e1afmkfd.com',
      'com',
    ]);
    const path = randomPath(random, 3);
    const [termination, insecure] = pick<[Termination, InsecurePolicy]>(random, [
      ['http', 'none'],
      ['edge', 'none'],
      ['edge', 'allow'],
      ['edge', 'redirect'],
      ['reencrypt', 'redirect'],
    ]);
    const claim = `${wildcard} ${host}${path}`;
    if (!routes.has(claim)) routes.set(claim, route(`r${routes.size}`, { host, wildcard, path, termination, insecure }));
  }
  return [...routes.values()];
}

function badHosts(name: string): string[] {
  return [
    `${name}:`,
    `${name}:80:90`,
    `${name},x`,
    `${name}/a`,
    `.${name}`,
    `*.${name}`,
    `x ${name}`,
    `é${name}`,
    '[::1]:80',
    'h?',
    '.',
    '',
  ];
}

function randomPath(random: Random, depth: number): string {
  const segments = Array.from({ length: random(depth + 1) }, () => pick(random, SEGMENTS).replace('#', '%23'));
  const path = segments.map((segment) => `/${segment}`).join('');
  return path !== '' && random(5) === 0 ? `${path}/` : path;
}

/** Most of them near a route: its host in another spelling, its path with something added, removed or changed. */
function randomRequests(random: Random, routes: readonly AdmittedRoute[], count: number): Request[] {
  return Array.from({ length: count }, () => {
    const { host, path, wildcard } = pick(random, routes);
    const name = wildcard || random(6) === 0 ? `${pick(random, ['x', 'y-1', 'a', 'b.a', ''])}.${host}` : host;
    const decorated =
      random(4) === 0
        ? pick(random, badHosts(name))
        : pick(random, [name, name, name.toUpperCase(), `${name}:8080`, `${name}.`, `${name}..:1`]);
    const kept =
      random(2) === 0 ? path : pick(random, [`${path}/`, path.slice(0, -1), `${path}x`, `${path}//`, `/${path}`, randomPath(random, 4)]);
    const changed = random(2) === 0 ? kept : `${kept}${pick(random, ['/x', '/a/b', '/', '/%2F', '/x;y'])}`;
    const query = pick(random, ['', '', '?', '?a=/b', '?x?y']);
    return { host: decorated, target: `${changed.startsWith('/') ? changed : `/${changed}`}${query}` };
  });
}

/** Sends all requests over a few connections, each kept open until HAProxy closes it, and gives the answers in order. */
async function ask(requests: readonly Request[], open: () => Socket): Promise<string[]> {
  const answers: string[] = Array.from({ length: requests.length });
  const lanes = Array.from({ length: 8 }, (_, lane) => requests.map((_request, index) => index).filter((index) => index % 8 === lane));
  await Promise.all(
    lanes.map(async (lane) => {
      let next = 0;
      while (next < lane.length) {
        const batch = lane.slice(next, next + 50);
        const got = await converse(
          batch.flatMap((index) => requests[index] ?? []),
          open,
        );
        assert.ok(got.length > 0, `no answer to ${JSON.stringify(requests[batch[0] ?? 0])}`);
        got.forEach((answer, position) => (answers[batch[position] ?? 0] = answer));
        next += got.length;
      }
    }),
  );
  return answers;
}

/** Pipelines requests on one connection. HAProxy closes it after a request that it cannot parse: then there are fewer answers. */
async function converse(requests: readonly Request[], open: () => Socket): Promise<string[]> {
  const socket = open();
  const ended = once(socket, 'close');
  const answers: string[] = [];
  let pending = '';
  socket.setEncoding('latin1');
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: string) => {
    pending += chunk;
    for (let end = answerEnd(pending); end !== -1; end = answerEnd(pending)) {
      answers.push(readAnswer(Buffer.from(pending.slice(0, end), 'latin1').toString('utf8')));
      pending = pending.slice(end);
    }
    if (answers.length === requests.length) socket.destroy();
  });
  socket.write(requests.map(({ host, target }) => `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`).join(''), 'utf8');
  await ended;
  return answers;
}

function answerEnd(text: string): number {
  const head = text.indexOf('\r\n\r\n');
  if (head === -1) return -1;
  const end = head + 4 + Number(/^content-length: *(\d+)/im.exec(text.slice(0, head))?.[1] ?? text.length);
  return end <= text.length ? end : -1;
}

function readAnswer(text: string): string {
  const status = text.slice(9, 12);
  if (status === '200') return /^x-answer: (.*)$/im.exec(text)?.[1]?.trim() ?? '200';
  return status === '302' ? `302 ${/^location: (.*)$/im.exec(text)?.[1]?.trim()}` : status;
}

type Random = (below: number) => number;

/** The same numbers for the same seed (mulberry32). */
function randomFrom(seed: number): Random {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

function pick<T>(random: Random, choices: readonly T[]): T {
  const choice = choices[random(choices.length)];
  if (choice === undefined) throw new Error('nothing to pick from');
  return choice;
}

function shuffled<T>(values: readonly T[], random: Random): T[] {
  const order = values.map((value) => ({ value, at: random(1_000_000) }));
  return order.sort((a, b) => a.at - b.at).map(({ value }) => value);
}
