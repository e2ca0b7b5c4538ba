// The whole host: a real directory store, a folder of manifests, HTTP and streams on a real port, and a sidecar with recording roles.

import assert from 'node:assert/strict';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { directoryCluster, watchDirectory } from '../../../functions/cluster/directory.ts';
import { defaultOptions } from '../../../functions/load-options.ts';
import { type Host, type HostOptions, startHost } from '../../../functions/platforms/node.ts';
import { listenOn } from '../../../shared/listen.ts';
import { openObjectStore } from '../../../shared/object-store/open-store.ts';
import { openVersionStore } from '../../../shared/version-store.ts';
import { until } from '../../fixtures/poll.ts';
import { RecordingRole } from '../../fixtures/recording-role.ts';
import { SILENT, startNode, temporaryFolder, TOKEN } from '../../fixtures/stream-host.ts';

const LOCAL = { host: '127.0.0.1', port: 0 };

/** A route, its service and one endpoint. */
const manifests = (host: string, address = '10.1.0.1'): string => `
apiVersion: route.openshift.io/v1
kind: Route
metadata: {name: web, namespace: shop, uid: u-1, creationTimestamp: "2024-01-01T00:00:00Z"}
spec: {host: ${host}, to: {kind: Service, name: web}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: ["${address}"], conditions: {ready: true}}]
`;

async function world(t: TestContext) {
  const folder = await temporaryFolder(t);
  const cluster = join(folder, 'cluster');
  const tokenFile = join(folder, 'token');
  await mkdir(cluster);
  await writeFile(tokenFile, TOKEN);
  const edit = (text: string): Promise<void> => writeFile(join(cluster, 'shop.yaml'), text);
  const store = await openVersionStore(await openObjectStore(pathToFileURL(join(folder, 'store')).href));
  const start = async (options: Partial<HostOptions> = {}): Promise<Host> => {
    const host = await startHost({
      listen: LOCAL,
      store,
      cluster: directoryCluster(cluster),
      options: defaultOptions(),
      tokenFile,
      operatorTokenFile: null,
      sealingKey: null,
      logger: SILENT,
      watch: (onChange) => watchDirectory(cluster, onChange),
      ...options,
    });
    let closed: Promise<void> | null = null;
    const once = { ...host, close: () => (closed ??= host.close()) };
    t.after(() => once.close());
    return once;
  };
  const sidecar = (host: Host, roles: readonly RecordingRole[]) =>
    startNode(t, roles, { addresses: [`ws://127.0.0.1:${host.port}/stream`], state: join(folder, 'state'), tokenFile });
  return { folder, cluster, tokenFile, store, edit, start, sidecar };
}

const jsonOf = async (response: Response) => JSON.parse(await response.text());
const getJson = async (host: Host, path: string) => jsonOf(await fetch(`${host.url}${path}`));
const post = (host: Host, path: string, body: string | Uint8Array = '') => fetch(`${host.url}${path}`, { method: 'POST', body });
const textOf = (role: RecordingRole): string => JSON.stringify(role.running);

test('a change of the folder reaches the node, a rollback holds the configuration, and resume ends it', async (t) => {
  const { edit, start, sidecar } = await world(t);
  await edit(manifests('one.example.com'));
  const host = await start();
  const [router, proxy] = [new RecordingRole('router'), new RecordingRole('service-proxy')];
  await sidecar(host, [router, proxy]);
  await until('version 1 runs', () => textOf(router).includes('one.example.com') && textOf(proxy).includes('10.1.0.1'));

  await edit(manifests('two.example.com'));
  await until('version 2 runs', () => textOf(router).includes('two.example.com'));

  const rolledBack = await post(host, '/rollback', JSON.stringify({ version: 1, reason: 'test' }));
  assert.equal(rolledBack.status, 200);
  await until('the configuration of version 1 runs', () => textOf(router).includes('one.example.com'));

  await edit(manifests('two.example.com', '10.1.0.2'));
  await until('endpoints move under the rollback', () => textOf(router).includes('10.1.0.2') && textOf(proxy).includes('10.1.0.2'));
  assert.ok(textOf(router).includes('one.example.com'));

  assert.equal((await post(host, '/resume')).status, 200);
  await until('the newest configuration runs', () => textOf(router).includes('two.example.com') && textOf(router).includes('10.1.0.2'));

  const versions = await getJson(host, '/versions');
  assert.ok(versions.length >= 4);
  assert.deepEqual(Object.keys((await getJson(host, '/versions/1')).files).includes('router/config/00-base.cfg'), true);
  assert.ok((await getJson(host, '/diff?from=1&to=2')).routes.length > 0);
  await until('the fleet shows the node at the head', async () => {
    const { head, nodes } = await getJson(host, '/fleet');
    return nodes.length === 1 && nodes[0].node === 'worker-1' && nodes[0].sequence === head.sequence;
  });
});

test('a folder that does not parse publishes nothing, is said in /readyz, and is served once it is mended', async (t) => {
  const { edit, start, store } = await world(t);
  await edit('kind: [');
  const host = await start();
  await until('it is said', async () => {
    const response = await fetch(`${host.url}/readyz`);
    return response.status === 503 && /shop\.yaml/.test((await jsonOf(response)).detail);
  });
  const failed = await post(host, '/reconcile');
  assert.equal(failed.status, 503);
  assert.equal(failed.headers.get('content-type'), 'application/problem+json');
  assert.equal(await store.readHead(), null);

  await edit(manifests('one.example.com'));
  await until('it is served', async () => (await fetch(`${host.url}/readyz`)).status === 200);
  await edit('kind: [');
  await until('the host stays ready and says what is wrong', async () =>
    /shop\.yaml/.test(await (await fetch(`${host.url}/readyz`)).text()),
  );
  assert.equal((await fetch(`${host.url}/readyz`)).status, 200);
  assert.equal((await store.readHead())?.head.sequence, 1);
});

test('without a watch, a trigger brings the change', async (t) => {
  const { edit, start } = await world(t);
  await edit(manifests('one.example.com'));
  const host = await start({ watch: () => ({ close: () => undefined }) });
  // Once a trigger is answered, nothing of the start is left that could see the edit first.
  assert.deepEqual(await jsonOf(await post(host, '/reconcile')), { version: 1, sequence: 1, changed: false });
  await edit(manifests('two.example.com'));
  const answer = await post(host, '/reconcile');
  assert.equal(answer.status, 200);
  assert.deepEqual(await jsonOf(answer), { version: 2, sequence: 2, changed: true });
  assert.deepEqual(await jsonOf(await post(host, '/reconcile')), { version: 2, sequence: 2, changed: false });

  await edit(manifests('three.example.com'));
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: { uid: 'u' } };
  const admitted = await post(host, '/admit', JSON.stringify(review));
  assert.equal((await jsonOf(admitted)).response.allowed, true);
  await until('the mark is served later', async () => (await getJson(host, '/versions')).length === 3);
  await until('the metrics say so', async () => {
    const metrics = await (await fetch(`${host.url}/metrics`)).text();
    return /^headgate_head_version 3$/m.test(metrics) && /^headgate_reconciles_total\{outcome="changed"\} 3$/m.test(metrics);
  });
});

test('a trigger at another replica is noticed here', async (t) => {
  const { edit, start, sidecar } = await world(t);
  await edit(manifests('one.example.com'));
  const [here, there] = [await start(), await start()];
  const router = new RecordingRole('router');
  await sidecar(here, [router]);
  await until('version 1 runs', () => textOf(router).includes('one.example.com'));
  await edit(manifests('two.example.com'));
  await post(there, '/reconcile');
  await until('version 2 runs', () => textOf(router).includes('two.example.com'));
});

test('a node follows a host that was restarted', async (t) => {
  const { edit, start, sidecar } = await world(t);
  await edit(manifests('one.example.com'));
  const before = await start();
  const router = new RecordingRole('router');
  await sidecar(before, [router]);
  await until('version 1 runs', () => textOf(router).includes('one.example.com'));
  await before.close();
  await edit(manifests('two.example.com'));
  await start({ listen: { host: '127.0.0.1', port: before.port } });
  await until('version 2 runs', () => textOf(router).includes('two.example.com'));
});

test('a port that is taken is said in one line, and nothing is left running', async (t) => {
  const { start } = await world(t);
  const other = createServer();
  t.after(() => other.close());
  const port = await listenOn(other, LOCAL);
  await assert.rejects(start({ listen: { host: '127.0.0.1', port } }), {
    code: 'port-in-use',
    stage: 'serve',
    message: `127.0.0.1:${port} is taken by another program; choose another with --listen`,
  });
});

test('a token file that cannot be read is said at the start', async (t) => {
  const { folder, start } = await world(t);
  await assert.rejects(start({ tokenFile: join(folder, 'nowhere') }), { code: 'token-file-unreadable' });
  await assert.rejects(start({ operatorTokenFile: join(folder, 'nowhere') }), { code: 'token-file-unreadable' });
});

test('bodies are bounded, streams need an upgrade, and other paths take none', async (t) => {
  const { edit, start } = await world(t);
  await edit(manifests('one.example.com'));
  const host = await start();
  const large = await post(host, '/reconcile', Buffer.alloc(11 * 1024 * 1024)).then(
    (response) => response.status,
    () => 413,
  );
  assert.equal(large, 413);
  assert.equal((await fetch(`${host.url}/stream`)).status, 426);
  const answer = await rawRequest(host.port, 'GET /versions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  assert.match(answer, /^HTTP\/1\.1 404 Not Found\r\n/);
  assert.match(answer, /application\/problem\+json/);
  assert.equal((await fetch(`${host.url}/healthz`)).status, 200);
});

test('a host closes with requests and streams open', async (t) => {
  const { folder, edit, start, sidecar } = await world(t);
  await edit(manifests('one.example.com'));
  const host = await start();
  const router = new RecordingRole('router');
  await sidecar(host, [router]);
  await until('version 1 runs', () => textOf(router).includes('one.example.com'));
  const idle = connect(host.port, '127.0.0.1');
  t.after(() => idle.destroy());
  idle.on('error', () => undefined);
  idle.write('POST /reconcile HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf');
  await host.close();
  await assert.rejects(fetch(`${host.url}/healthz`));
  assert.ok((await readdir(join(folder, 'store', 'fleet'))).length > 0, 'the last reports are written');
  await rm(join(folder, 'store'), { recursive: true });
});

function rawRequest(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    let answer = '';
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString('utf8')));
    socket.on('close', () => resolve(answer));
    socket.on('error', reject);
  });
}
