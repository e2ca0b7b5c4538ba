import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkConsistency } from '../../functions/check-consistency.ts';
import { compute, admit } from '../../functions/compute.ts';
import { defaultOptions } from '../../functions/load-options.ts';
import { HeadgateError } from '../../shared/error.ts';
import { MemoryCluster, smallCluster } from './memory-cluster.ts';

async function computed(cluster: MemoryCluster): Promise<{ files: Map<string, string | Uint8Array>; secrets: string[] }> {
  const state = await cluster.read();
  const { configuration, secrets } = admit(state, defaultOptions());
  return { files: new Map(compute(configuration, state.endpoints, state.nodes).files), secrets: [...secrets.keys()] };
}

function everyTermination(): MemoryCluster {
  const cluster = smallCluster();
  cluster.route('edge', { host: 'edge.example.com', tls: { termination: 'edge', insecureEdgeTerminationPolicy: 'Redirect' } });
  cluster.route('reencrypt', { host: 're.example.com', tls: { termination: 'reencrypt', insecureEdgeTerminationPolicy: 'Allow' } });
  cluster.route('pass', { host: 'pass.example.com', tls: { termination: 'passthrough' } });
  return cluster;
}

const namedFault = (words: RegExp) => (thrown: unknown) => {
  assert.ok(thrown instanceof HeadgateError);
  assert.equal(thrown.code, 'inconsistent-version');
  assert.match(thrown.message, words);
  return true;
};

test('what compute makes fits together: none, one, and every kind of route', async () => {
  for (const cluster of [new MemoryCluster(), smallCluster(), everyTermination()]) {
    const { files, secrets } = await computed(cluster);
    checkConsistency(files, secrets);
  }
});

test('a map that names a backend without state, a state without stanza, a crt-list without certificate, an unsafe path', async () => {
  const { files, secrets } = await computed(everyTermination());
  const without = (prefix: string) => new Map<string, string | Uint8Array>([...files].filter(([path]) => !path.startsWith(prefix)));
  assert.throws(
    () => checkConsistency(without('router/state/'), secrets),
    namedFault(/router\/maps\/\w+\/\w\w names be_\S+, which has no state/),
  );
  assert.throws(() => checkConsistency(without('router/config/'), secrets), namedFault(/router\/state holds be_\S+, which has no stanza/));
  const listed = new Map<string, string | Uint8Array>([
    ...files,
    ['router/crt-list/aa', 'certificates/none.pem [alpn h2] a.example.com\n'],
  ]);
  assert.throws(
    () => checkConsistency(listed, secrets),
    namedFault(/router\/crt-list\/aa names router\/certificates\/none\.pem, which is not/),
  );
  const state = { backend: 'be_http:a:b', fixed: '', cookies: false, servers: [{ name: 's', tls: { caFile: 'certificates/none.pem' } }] };
  const verifying = new Map([
    ['router/state/aa', JSON.stringify([state])],
    ['router/config/backends-aa.cfg', 'backend be_http:a:b\n'],
  ]);
  assert.throws(() => checkConsistency(verifying, secrets), namedFault(/be_http:a:b names router\/certificates\/none\.pem/));
  assert.throws(
    () => checkConsistency(new Map([...files, ['router/../x', '']]), secrets),
    namedFault(/"router\/\.\.\/x" is not a safe path/),
  );
});

test('many faults are one message of bounded length', async () => {
  const { files, secrets } = await computed(smallCluster());
  const lines = Array.from({ length: 1000 }, (_, index) => `h${index}.example.com/ be_http:none:r${index}\n`).join('');
  assert.throws(() => checkConsistency(new Map([...files, ['router/maps/http/zz', lines]]), secrets), namedFault(/and 995 more/));
});
