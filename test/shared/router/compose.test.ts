import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { buildRouter } from '../../../functions/router/build.ts';
import { renderRouter } from '../../../functions/router/render.ts';
import type { RouteSummary } from '../../../functions/router/state.ts';
import { composeRouter, readBackendStates } from '../../../shared/router/compose.ts';
import { until } from '../../fixtures/poll.ts';
import { serverLine } from '../../../shared/router/server-line.ts';
import type { Server } from '../../../shared/router/state.ts';
import { readShards } from '../../../shared/shard.ts';
import { noHaproxy, freePorts, whileServing, writeFolder } from '../../fixtures/run-haproxy.ts';
import { behind, configuration, endpoint, endpointsOf, options, route, selfSigned, stanza, text } from '../../functions/router/fixtures.ts';

const routes = [
  route('a'),
  route('b', { path: '/b', termination: 'edge', certificate: { path: 'certificates/b.pem', fingerprint: 'b' } }),
  route('p', { termination: 'passthrough' }),
];
const endpoints = endpointsOf(behind('a', [endpoint('10.0.0.1'), endpoint('fd00::2')]));
const shards = renderRouter(buildRouter(configuration(routes, { options: options({ statsUser: 'admin' }) }), endpoints));
const password = new Map([['router/secrets/stats-password', Buffer.from('pa"ss $1 <secret stats-password>')]]);

describe('shards become the files of a node', () => {
  const files = composeRouter(new Map([...shards, ...password, ['router/certificates/b.pem', 'PEM'], ['iptables/x', '']]));

  test('server lines stand in their stanzas', () => {
    const lines = stanza(files, 'be_http:ns:a')
      .split('\n')
      .filter((line) => line.startsWith('  server '));
    const servers = readBackendStates(shards).get('be_http:ns:a')?.servers ?? [];
    assert.deepEqual(
      lines,
      servers.map((server) => `  server ${serverLine(server, 'configuration')}`),
    );
    assert.equal(lines.length, 2);
    assert.ok(![...files.keys()].some((path) => path.startsWith('router/config/') && text(files, path).includes('# servers of')));
  });

  test('maps and the crt-list are whole, also when empty; certificates and states pass; the rest stays away', () => {
    assert.deepEqual(text(files, 'router/maps/http.map').trimEnd().split('\n').toSorted(), [
      'a.example.com/ be_http:ns:a',
      'a.example.com? be_http:ns:a',
    ]);
    assert.equal(text(files, 'router/crt-list/https.list'), 'certificates/b.pem [alpn h2,http/1.1] b.example.com\n');
    assert.equal(text(files, 'router/certificates/b.pem'), 'PEM');
    assert.ok([...files.keys()].every((path) => !/secrets|iptables|maps\/\w+\/|crt-list\/..$/.test(path)));
    assert.ok([...files.keys()].some((path) => path.startsWith('router/state/')));
    const empty = composeRouter(renderRouter(buildRouter(configuration([]), new Map())));
    assert.deepEqual(
      [...empty.keys()],
      [
        'router/config/00-base.cfg',
        'router/crt-list/https.list',
        ...['certificate', 'http', 'https', 'sni'].map((name) => `router/maps/${name}.map`),
      ],
    );
  });

  test('secrets are filled in quoted, and a missing one is an error that does not say what it is', () => {
    assert.match(text(files, 'router/config/00-base.cfg'), /user "admin" insecure-password "pa\\"ss \\\$1 <secret stats-password>"\n/);
    assert.throws(() => composeRouter(shards), { code: 'secret-missing', message: /stats-password/ });
  });

  test('a route cannot ask for a secret', () => {
    const edit = { direction: 'request', name: 'X', action: 'set', value: '<secret stats-password>' } as const;
    const asking = renderRouter(buildRouter(configuration([route('a', { settings: { headerEdits: [edit] } })]), new Map()));
    assert.match(stanza(composeRouter(new Map([...asking, ...password])), 'be_http:ns:a'), /set-header "X" "<secret stats-password>"/);
  });

  test('what a plan compares is read from shards and from composed files alike', () => {
    assert.equal(readBackendStates(shards).get('be_edge_http:ns:b')?.cookies, true);
    assert.equal(readBackendStates(shards).get('be_tcp:ns:p')?.cookies, false);
    assert.deepEqual(readBackendStates(files), readBackendStates(shards));
  });

  test('routes for people say what serves them', () => {
    assert.deepEqual(
      readShards<RouteSummary>(shards, 'routes').find((listed) => listed.name === 'b'),
      {
        namespace: 'ns',
        name: 'b',
        kind: 'Route',
        host: 'b.example.com',
        path: '/b',
        wildcard: false,
        termination: 'edge',
        backend: 'be_edge_http:ns:b',
        services: [{ name: 'b', weight: 1, endpoints: 0, serverWeight: 0 }],
      },
    );
  });
});

describe('one line for a server wherever it comes from', () => {
  const plain: Server = {
    name: 'pod:p:s:web:10.0.0.1:8080',
    id: 7,
    address: '10.0.0.1',
    port: 8080,
    weight: 256,
    checkInterval: 5000,
    maxConnections: 9,
    http2: true,
    tls: null,
  };
  const servers: Server[] = [
    plain,
    { ...plain, name: 'v6', id: 8, address: 'fd00::1', http2: false, checkInterval: null, maxConnections: null, weight: 0 },
    { ...plain, name: 'tls', id: 9, tls: { caFile: 'certificates/default.pem', verifyHost: 's.ns.svc' } },
    { ...plain, name: 'unverified', id: 10, tls: { caFile: null, verifyHost: null } },
    { ...plain, name: `pod:${'p'.repeat(253)}:${'s'.repeat(63)}:web:fd00:1111:2222:3333:4444:5555:6666:7777:8080`, id: 11, http2: false },
  ];

  test('as words', () => {
    assert.equal(
      serverLine(plain, 'socket'),
      'pod:p:s:web:10.0.0.1:8080 10.0.0.1:8080 id 7 weight 256 maxconn 9 pool-purge-delay 5s pool-max-conn -1 proto h2 check inter 5000ms',
    );
    assert.ok(
      servers.every(
        (server) => !/pool|enabled/.test(serverLine(server, 'configuration')) && !serverLine(server, 'socket').includes('enabled'),
      ),
    );
  });

  test('HAProxy takes it from a file and from its socket, and shows the same server', { skip: noHaproxy }, async () => {
    const [port = 0] = await freePorts(1);
    const timeouts = ['  timeout client 10s', '  timeout server 10s', '  timeout connect 10s'];
    const folder = await writeFolder(new Map());
    const socket = join(folder, 'admin.sock');
    const config = [
      'global',
      `  stats socket ${socket} level admin`,
      'defaults',
      '  mode http',
      ...timeouts,
      'frontend f',
      `  bind 127.0.0.1:${port}`,
      'backend filed',
      '  balance random',
      ...servers.map((server) => `  server ${serverLine(server, 'configuration')}`),
      'backend added',
      '  balance random',
      '',
    ].join('\n');
    const files = new Map([
      ['router/config/a.cfg', config],
      ['router/certificates/default.pem', await selfSigned('s.ns.svc')],
    ]);
    try {
      await whileServing(files, port, async () => {
        // HAProxy listens on TCP before it listens on Unix sockets.
        await until('its socket answers', () =>
          ask(socket, 'show version').then(
            () => true,
            () => false,
          ),
        );
        for (const server of servers)
          assert.equal(await ask(socket, `add server added/${serverLine(server, 'socket')}`), 'New server registered.');
        for (const { name } of servers) {
          const shown = async (backend: string) => {
            const lines = (await ask(socket, `show servers state ${backend}`)).split('\n');
            const fields = lines.find((line) => line.split(' ')[3] === name)?.split(' ') ?? [];
            return [2, 3, 4, 7, 8, 18].map((field) => fields[field]);
          };
          assert.deepEqual(await shown('added'), await shown('filed'));
        }
      });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

async function ask(path: string, command: string): Promise<string> {
  const socket = connect(path);
  let answer = '';
  socket.end(`${command}\n`);
  for await (const chunk of socket) answer += String(chunk);
  return answer.trim();
}
