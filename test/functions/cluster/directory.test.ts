import assert from 'node:assert/strict';
import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { directoryCluster } from '../../../functions/cluster/directory.ts';
import type { ClusterState } from '../../../functions/cluster/objects.ts';
import { HeadgateError } from '../../../shared/error.ts';
import { canonicalJson } from '../../../shared/json.ts';
import { temporaryFolder, writeFiles } from '../../fixtures/temporary-folder.ts';
import { cases } from '../../fixtures/cases.ts';

const route = (name: string, host = `${name}.example.com`): string =>
  JSON.stringify({
    apiVersion: 'route.openshift.io/v1',
    kind: 'Route',
    metadata: { namespace: 'web', name },
    spec: { host, to: { name: 's' } },
  });
const slice = (name: string, address: string): string =>
  JSON.stringify({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace: 'web', name, labels: { 'kubernetes.io/service-name': 's' } },
    addressType: 'IPv4',
    ports: [{ port: 8080 }],
    endpoints: [{ addresses: [address] }],
  });

const routeNames = (state: ClusterState): string[] => state.routes.map(({ meta }) => meta.name);

/** All of a state as text, its maps too. */
function stateText(state: ClusterState): string {
  const secrets = state.secrets.map((secret) => ({
    ...secret,
    data: [...secret.data].map(([key, bytes]) => [key, Buffer.from(bytes).toString('hex')]),
  }));
  return canonicalJson({ ...state, secrets, endpoints: [...state.endpoints] });
}

async function refusal(reading: Promise<unknown>): Promise<HeadgateError> {
  const error = await reading.then(
    () => assert.fail('expected a refusal'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof HeadgateError, String(error));
  assert.equal(error.stage, 'read-cluster');
  assert.doesNotMatch(error.message, /\n/);
  return error;
}

describe('a folder', () => {
  test('every file of it, YAML and JSON', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, {
      'b.yaml': `${route('b')}\n---\n${route('c')}\n`,
      'sub/a.json': route('a'),
      'sub/readme.md': 'not: [yaml',
      'empty.yaml': '',
    });
    assert.deepEqual(routeNames(await directoryCluster(folder).read()), ['a', 'b', 'c']);
  });

  test('nothing in it', async (context) => {
    assert.deepEqual(routeNames(await directoryCluster(temporaryFolder(context)).read()), []);
  });

  test('each reading sees what is there now', async (context) => {
    const folder = temporaryFolder(context);
    const cluster = directoryCluster(folder);
    writeFiles(folder, { 'a.yaml': route('a'), 'b.yaml': route('b') });
    assert.deepEqual(routeNames(await cluster.read()), ['a', 'b']);
    writeFiles(folder, { 'a.yaml': route('z') });
    assert.deepEqual(routeNames(await cluster.read()), ['b', 'z']);
    rmSync(join(folder, 'b.yaml'));
    assert.deepEqual(routeNames(await cluster.read()), ['z']);
    writeFiles(folder, { 'b.yaml': 'broken: [' });
    await refusal(cluster.read());
    writeFiles(folder, { 'b.yaml': route('b') });
    assert.deepEqual(routeNames(await cluster.read()), ['b', 'z']);
  });

  test('one reading does not change what an earlier one gave', async (context) => {
    const folder = temporaryFolder(context);
    const cluster = directoryCluster(folder);
    writeFiles(folder, { 'a.yaml': `${route('b')}\n---\n${route('a')}`, 'b.yaml': slice('s-1', '10.0.0.1') });
    const first = await cluster.read();
    const before = stateText(first);
    writeFiles(folder, { 'b.yaml': slice('s-1', '10.0.0.2') });
    const second = await cluster.read();
    assert.equal(stateText(first), before);
    assert.notEqual(stateText(second), before);
  });

  test('one file that does not parse: nothing is read, and file and line are named', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { 'a.yaml': route('a'), 'sub/b.yaml': 'apiVersion: v1\nkind: Service\nmetadata: {name: x\n' });
    const error = await refusal(directoryCluster(folder).read());
    assert.equal(error.code, 'bad-manifest');
    assert.ok(error.message.startsWith(`${join(folder, 'sub/b.yaml')}:4: `), error.message);
  });

  test('text that is not UTF-8', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { 'a.yaml': Buffer.concat([Buffer.from('# fine\n# '), Buffer.from([0xff, 0xfe])]) });
    const error = await refusal(directoryCluster(folder).read());
    assert.equal(error.message, `${join(folder, 'a.yaml')}:2: not UTF-8`);
  });

  test('a byte order mark is no part of the text', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { 'a.json': `\ufeff${route('a')}`, 'b.yaml': `\ufeff${route('b')}` });
    assert.deepEqual(routeNames(await directoryCluster(folder).read()), ['a', 'b']);
  });

  test('no folder there', async (context) => {
    const path = join(temporaryFolder(context), 'nowhere');
    assert.equal((await refusal(directoryCluster(path).read())).code, 'missing-manifests');
  });

  test('a file that may not be read', { skip: process.getuid?.() === 0 ? 'root may read everything' : false }, async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { 'a.yaml': route('a') });
    chmodSync(join(folder, 'a.yaml'), 0);
    const error = await refusal(directoryCluster(folder).read());
    assert.equal(error.message, `${join(folder, 'a.yaml')}: cannot be read (EACCES)`);
  });

  test('a reading that was called off', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { 'a.yaml': route('a') });
    await assert.rejects(directoryCluster(folder).read(AbortSignal.abort()), { name: 'AbortError' });
  });
});

test('one file', async (context) => {
  const folder = temporaryFolder(context);
  writeFiles(folder, { 'manifests.txt': `${route('a')}\n---\n${route('b')}`, 'other.yaml': route('c') });
  assert.deepEqual(routeNames(await directoryCluster(join(folder, 'manifests.txt')).read()), ['a', 'b']);
});

describe('standard input', () => {
  const input = (...chunks: readonly (string | Uint8Array)[]): Readable => Readable.from(chunks.map((chunk) => Buffer.from(chunk)));

  test('YAML or JSON, in pieces, read once and remembered', async () => {
    const text = Buffer.from(route('a', 'é.example.com'));
    const cut = text.indexOf(0xc3) + 1;
    const cluster = directoryCluster('-', input(text.subarray(0, cut), text.subarray(cut), `\n---\n${route('b')}`));
    assert.deepEqual(routeNames(await cluster.read()), ['a', 'b']);
    const again = await cluster.read();
    assert.deepEqual(routeNames(again), ['a', 'b']);
    assert.equal(again.routes[0]?.host, 'é.example.com');
  });

  test('nothing, which is a failed pipe and not a cluster without objects', async () => {
    assert.equal((await refusal(directoryCluster('-', input()).read())).code, 'empty-input');
    assert.equal((await refusal(directoryCluster('-', input('\n \n')).read())).code, 'empty-input');
    assert.deepEqual(routeNames(await directoryCluster('-', input('{apiVersion: v1, kind: List, items: []}')).read()), []);
  });

  test('what does not parse', async () => {
    const error = await refusal(directoryCluster('-', input('kind: Route\n', 'kind: Route\n')).read());
    assert.match(error.message, /^stdin:2: /);
  });
});

test('the same manifests give the same state, however they are ordered and spread over files', async (context) => {
  const manifests = [
    route('a'),
    route('b'),
    route('b', 'other.example.com'),
    route('c'),
    route('c'),
    slice('s-1', '10.0.0.1'),
    slice('s-2', '10.0.0.2'),
    slice('s-3', 'not-an-address'),
    '{"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "web", "name": "s"}, "spec": {"ports": "x"}}',
    '{"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "web", "name": "t"}}',
    '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}',
    '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}}',
    '{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "data": {"tls.crt": "QQ=="}}',
    '{"apiVersion": "v1", "kind": "Endpoints", "metadata": {"namespace": "web", "name": "t"}, "subsets": [{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"port": 1}]}]}',
  ];
  const folder = temporaryFolder(context);
  writeFiles(folder, { 'all.yaml': manifests.join('\n---\n') });
  const expected = stateText(await directoryCluster(folder).read());
  assert.match(expected, /DuplicateObject/);
  let run = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.shuffledSubarray(manifests, { minLength: manifests.length }),
      fc.array(fc.constantFrom('a.yaml', 'b.yaml', 'sub/a.yaml', 'z/y/x.yml'), {
        minLength: manifests.length,
        maxLength: manifests.length,
      }),
      async (order, paths) => {
        const files: Record<string, string> = {};
        for (const [index, manifest] of order.entries()) {
          const path = paths[index] ?? 'a.yaml';
          files[path] = files[path] === undefined ? manifest : `${files[path]}\n---\n${manifest}`;
        }
        const spread = join(folder, `.run-${run++}`);
        writeFiles(spread, files);
        assert.equal(stateText(await directoryCluster(spread).read()), expected);
      },
    ),
    { numRuns: cases(60, 600) },
  );
});
