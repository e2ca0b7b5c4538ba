import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { ClusterState, RouteTls } from '../../../functions/cluster/objects.ts';
import type { Options } from '../../../functions/options.ts';
import { admitRoutes } from '../../../functions/router/admit.ts';
import { isOurDefaultCertificate } from '../../../functions/router/default-certificate.ts';
import { digestOf } from '../../../shared/digest.ts';
import { isSafePath } from '../../../shared/files.ts';
import { HeadgateError } from '../../../shared/error.ts';
import { canonicalJson } from '../../../shared/json.ts';
import { type RouteChanges, cluster, meta, options, outcome, route, service, tlsSecret } from './admission-fixtures.ts';
import { Authority, missing } from './openssl.ts';

const skip = missing('openssl', 'version');
const openssl = new Authority();
after(() => openssl.remove());
const pair = skip === false ? openssl.selfSigned('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1') : { crt: '', key: '' };
const authority = skip === false ? openssl.authority() : '';

function named(name: string, changes: RouteChanges = {}) {
  return route({ host: `${name}.example.com`, ...changes, meta: { name, ...changes.meta } });
}

function secretPaths(state: ClusterState, given: Options = options()): string[] {
  return [...admitRoutes(state, given).secrets.keys()];
}

describe('selectors', () => {
  const routes = [
    named('blue', { meta: { namespace: 'one', labels: { shard: 'blue' } } }),
    named('green', { meta: { namespace: 'two', labels: { shard: 'green' } } }),
    named('bad', { host: 'BAD', meta: { namespace: 'three' } }),
  ];
  const namespaces = [
    { name: 'one', labels: { team: 'a' } },
    { name: 'two', labels: {} },
  ];

  test('leave out routes, which is no rejection', () => {
    const { admitted, objects } = outcome(routes, { routeSelector: 'shard=blue' });
    assert.deepEqual([admitted, objects], [['one/blue'], []]);
  });

  test('a route that is left out claims nothing', () => {
    const old = named('old', { host: 'green.example.com', meta: { created: 0 } });
    const young = named('young', { host: 'green.example.com', meta: { namespace: 'two', created: 1, labels: { shard: 'green' } } });
    assert.deepEqual(outcome([old, young], { routeSelector: 'shard' }).admitted, ['two/young']);
  });

  test('of namespaces select the namespaces that were listed', () => {
    assert.deepEqual(outcome(routes, { namespaceSelector: 'team=a' }, { namespaces }).admitted, ['one/blue']);
    const { admitted, objects } = outcome(routes, { namespaceSelector: 'team!=a' }, { namespaces });
    assert.deepEqual([admitted, objects], [['two/green'], []]);
  });

  test('none selects everything', () => assert.deepEqual(outcome(routes).admitted, ['one/blue', 'two/green']));

  test('a bad one is an error of the options', () => {
    const given = options({ namespaceSelector: 'a in (' });
    assert.throws(() => admitRoutes(cluster(), given), { code: 'bad-options', stage: 'options', message: /router\.namespaceSelector/ });
  });
});

describe('certificates of routes', { skip }, () => {
  const tls = (changes: Partial<RouteTls> = {}) => ({ termination: 'edge', certificate: pair.crt, key: pair.key, ...changes });

  test('are files of the version, named by route', () => {
    const state = cluster({ routes: [named('own', { tls: tls() }), named('none', { tls: { termination: 'edge' } })] });
    const { configuration, secrets } = admitRoutes(state, options());
    assert.deepEqual([...secrets.keys()], ['router/certificates/default.pem', 'router/certificates/shop:own.pem']);
    assert.equal(secrets.get('router/certificates/shop:own.pem'), pair.crt + pair.key);
    assert.deepEqual(
      configuration.routes.map(({ name, certificate }) => [name, certificate?.path ?? null]),
      [
        ['none', null],
        ['own', 'certificates/shop:own.pem'],
      ],
    );
    assert.doesNotMatch(canonicalJson(configuration), /BEGIN|PRIVATE/);
  });

  test('a bad one rejects its own route alone', () => {
    const routes = [
      named('mismatch', { tls: tls({ key: openssl.selfSigned('-newkey', 'ed25519').key }) }),
      named('no-key', { tls: tls({ key: null }) }),
      named('no-certificate', { tls: tls({ certificate: '' }) }),
      named('bad-chain', { tls: tls({ caCertificate: openssl.signed('-sha1').crt }) }),
      named('bad-ca', { tls: { termination: 'reencrypt', destinationCACertificate: 'x' } }),
      named('good', { tls: tls() }),
    ];
    const { admitted, objects } = outcome(routes);
    assert.deepEqual(admitted, ['shop/good']);
    assert.deepEqual(objects, [
      'shop/bad-ca InvalidCertificate spec.tls.destinationCACertificate',
      'shop/bad-chain InvalidCertificate spec.tls.caCertificate',
      'shop/mismatch InvalidCertificate spec.tls.key',
      'shop/no-certificate InvalidCertificate spec.tls.certificate',
      'shop/no-key InvalidCertificate spec.tls.key',
    ]);
  });

  test('may stand in a Secret of the route namespace', () => {
    const external = (externalCertificate: string) => ({ termination: 'edge', externalCertificate });
    const routes = [
      named('good', { tls: external('right') }),
      named('gone', { tls: external('missing') }),
      named('opaque', { tls: external('opaque') }),
      named('elsewhere', { tls: external('elsewhere') }),
      named('broken', { tls: external('broken') }),
      named('both', { tls: { ...tls(), externalCertificate: 'right' } }),
    ];
    const secrets = [
      tlsSecret('right', pair.crt, pair.key),
      tlsSecret('opaque', pair.crt, pair.key, { type: 'Opaque' }),
      tlsSecret('elsewhere', pair.crt, pair.key, { namespace: 'other' }),
      tlsSecret('broken', pair.crt, ''),
    ];
    const { admitted, objects } = outcome(routes, {}, { secrets });
    assert.deepEqual(admitted, ['shop/good']);
    assert.deepEqual(objects, [
      'shop/both InvalidCertificate spec.tls.externalCertificate',
      'shop/broken InvalidCertificate spec.tls.externalCertificate',
      'shop/elsewhere ExternalCertificateNotFound spec.tls.externalCertificate',
      'shop/gone ExternalCertificateNotFound spec.tls.externalCertificate',
      'shop/opaque ExternalCertificateNotFound spec.tls.externalCertificate',
    ]);
  });

  test('are reported where they have no effect', () => {
    const { admitted, settings } = outcome([
      named('pass', { tls: tls({ termination: 'passthrough', destinationCACertificate: authority }) }),
      named('edge', { tls: tls({ destinationCACertificate: authority }) }),
    ]);
    assert.deepEqual(admitted, ['shop/edge', 'shop/pass']);
    assert.deepEqual(settings, [
      'CertificateIgnored spec.tls.destinationCACertificate',
      'CertificateIgnored spec.tls.certificate',
      'CertificateIgnored spec.tls.destinationCACertificate',
      'CertificateIgnored spec.tls.key',
    ]);
  });

  test('a CA is one file, named by its content', () => {
    const reencrypt = (destinationCACertificate: string) => ({ termination: 'reencrypt', destinationCACertificate });
    const comment = '-----BEGIN COMMENT-----\nempty\n-----END COMMENT-----\n';
    const routes = [
      named('one', { tls: reencrypt(authority) }),
      named('two', { tls: reencrypt(`\n${authority}\n`) }),
      named('three', { tls: reencrypt(comment) }),
    ];
    const path = `certificates/ca-${digestOf(authority)}.pem`;
    const { configuration, secrets } = admitRoutes(cluster({ routes }), options({}, { defaultDestinationCA: authority }));
    assert.deepEqual(
      configuration.routes.map(({ destinationCA }) => destinationCA),
      [path, null, path],
    );
    assert.equal(configuration.defaultDestinationCA, path);
    assert.equal(secrets.get(`router/${path}`), authority);
    assert.equal(secrets.size, 2);
  });

  test('a bad default CA is an error of the options', () => {
    const given = options({}, { defaultDestinationCA: 'x' });
    assert.throws(() => admitRoutes(cluster(), given), { code: 'bad-default-destination-ca', stage: 'options' });
  });

  test('have file names that a node can write, however long the route name', () => {
    const long = ['a', 'b'].map((last) => `${'x'.repeat(250)}${last}`);
    const routes = long.map((name, index) => route({ host: `h${index}.example.com`, meta: { name }, tls: tls() }));
    const paths = secretPaths(cluster({ routes }));
    assert.equal(paths.length, 3);
    for (const path of paths) assert.ok(isSafePath(path) && (path.split('/').at(-1) ?? '').length <= 255);
  });

  test('no rejection shows any of them', () => {
    const changes: Partial<RouteTls>[] = [
      { key: null },
      { key: 'x' },
      { certificate: pair.key },
      { caCertificate: 'BEGIN' },
      { termination: 'x' },
    ];
    const routes = changes.map((change, index) => named(`r${index}`, { tls: tls(change) }));
    const text = canonicalJson(admitRoutes(cluster({ routes }), options()).configuration.rejections);
    for (const line of `${pair.crt}${pair.key}`.split('\n').filter((one) => one !== '')) assert.ok(!text.includes(line));
  });
});

describe('the default certificate', () => {
  test('is one of ours when none is given', () => {
    const { configuration, secrets } = admitRoutes(cluster(), options());
    assert.equal(configuration.defaultCertificate.path, 'certificates/default.pem');
    assert.ok(isOurDefaultCertificate(configuration.defaultCertificate));
    const ours = secrets.get('router/certificates/default.pem');
    assert.deepEqual(admitRoutes(cluster(), options({}, { defaultCertificate: { pem: String(ours) } })), { configuration, secrets });
  });

  test('is the given one', { skip }, () => {
    const { configuration, secrets } = admitRoutes(cluster(), options({}, { defaultCertificate: { pem: pair.key + pair.crt } }));
    assert.equal(isOurDefaultCertificate(configuration.defaultCertificate), false);
    assert.equal(secrets.get('router/certificates/default.pem'), pair.crt + pair.key);
  });

  test('a bad given one is an error without its text', { skip }, () => {
    for (const pem of ['', pair.crt, pair.key, pair.crt + openssl.selfSigned('-newkey', 'ed25519').key]) {
      assert.throws(
        () => admitRoutes(cluster(), options({}, { defaultCertificate: { pem } })),
        (error) => error instanceof HeadgateError && error.code === 'bad-default-certificate' && !/BEGIN|\n/.test(error.message),
      );
    }
  });

  test('may stand in a Secret, and ours serves while that is bad', { skip }, () => {
    const given = options({}, { defaultCertificate: { secret: 'shop/default' } });
    const admit = (...secrets: ReturnType<typeof tlsSecret>[]) => admitRoutes(cluster({ secrets }), given).configuration;
    const right = admit(tlsSecret('default', pair.crt, pair.key));
    assert.deepEqual([isOurDefaultCertificate(right.defaultCertificate), right.rejections], [false, []]);
    for (const [state, reason] of [
      [admit(), 'DefaultCertificateNotFound'],
      [admit(tlsSecret('default', pair.crt, pair.key, { type: 'Opaque' })), 'DefaultCertificateNotFound'],
      [admit(tlsSecret('default', pair.crt, '')), 'InvalidCertificate'],
    ] as const) {
      assert.ok(isOurDefaultCertificate(state.defaultCertificate));
      assert.deepEqual(
        state.rejections.map((one) => [one.kind, one.namespace, one.name, one.scope, one.reason]),
        [['Secret', 'shop', 'default', 'object', reason]],
      );
    }
  });

  test('a Secret without a namespace is an error of the options', () => {
    for (const secret of ['', 'default', '/default', 'shop/', 'a/b/c']) {
      assert.throws(() => admitRoutes(cluster(), options({}, { defaultCertificate: { secret } })), { code: 'bad-default-certificate' });
    }
  });
});

test('the password of the stats page is a secret of the version and no part of the configuration', () => {
  const { configuration, secrets } = admitRoutes(cluster(), options({ statsUser: 'admin' }, { statsPassword: 'hunter2' }));
  assert.equal(secrets.get('router/secrets/stats-password'), 'hunter2');
  assert.doesNotMatch(canonicalJson(configuration), /hunter2/);
  assert.deepEqual(secretPaths(cluster()), ['router/certificates/default.pem']);
});

describe('services', () => {
  const idled = { 'idling.alpha.openshift.io/idled-at': '2024-01-01T00:00:00Z' };

  test('are those that an admitted route names in its namespace', () => {
    const routes = [named('one'), named('bad', { path: 'x', to: { kind: 'Service', name: 'unused', weight: null } })];
    const services = [service(), service({ meta: { namespace: 'other' } }), service({ meta: { name: 'unused' } })];
    const { configuration } = admitRoutes(cluster({ routes, services }), options());
    assert.deepEqual(
      configuration.services.map(({ namespace, name }) => `${namespace}/${name}`),
      ['shop/web'],
    );
  });

  test('have TCP ports only, and a cluster IP when they are idled', () => {
    const ports = (['TCP', 'UDP'] as const).map((protocol, index) => {
      return { name: protocol.toLowerCase(), protocol, port: 80 + index, targetPort: 'web', nodePort: 0, appProtocol: 'h2c' };
    });
    const ofService = (changes: Parameters<typeof service>[0]) =>
      admitRoutes(cluster({ routes: [named('one')], services: [service(changes)] }), options()).configuration.services[0];
    assert.deepEqual(ofService({ ports, meta: { annotations: idled }, clusterIPs: ['FD00::0001'] }), {
      namespace: 'shop',
      name: 'web',
      idledClusterIP: 'fd00::1',
      ports: [{ name: 'tcp', port: 80, targetPort: 'web', appProtocol: 'h2c' }],
    });
    assert.equal(ofService({})?.idledClusterIP, null);
    assert.equal(ofService({ meta: { annotations: idled }, clusterIPs: ['None'] })?.idledClusterIP, null);
    assert.equal(ofService({ meta: { annotations: idled }, clusterIPs: [] })?.idledClusterIP, null);
  });
});

test('the settings left out of a rejected route are not reported', () => {
  const annotations = { 'haproxy.router.openshift.io/balance': 'bad' };
  const { objects, settings } = outcome([named('bad', { host: 'BAD', meta: { annotations } }), named('good', { meta: { annotations } })]);
  assert.deepEqual(objects, ['shop/bad InvalidHost spec.host']);
  assert.deepEqual(settings, ['InvalidAnnotation haproxy.router.openshift.io/balance']);
});

test('the same objects give the same bytes in whatever order they were listed', () => {
  const routes = Array.from({ length: 12 }, (_, index) =>
    route({
      host: `${'abcd'[index % 4]}.example.com`,
      path: index % 3 === 0 ? '/sub' : null,
      wildcardPolicy: index % 5 === 0 ? 'Subdomain' : null,
      tls: index % 2 === 0 ? { termination: index % 8 === 0 ? 'passthrough' : 'edge' } : null,
      meta: meta({
        namespace: `n${index % 3}`,
        name: `r${index}`,
        created: index % 4,
        annotations: { 'haproxy.router.openshift.io/x': '1' },
      }),
    }),
  );
  const services = ['n0', 'n1', 'n2'].map((namespace) => service({ meta: { namespace } }));
  const bytes = (state: ClusterState) => {
    const { configuration, secrets } = admitRoutes(state, options({ allowWildcardRoutes: true }));
    return canonicalJson([configuration, [...secrets]]);
  };
  const expected = bytes(cluster({ routes, services }));
  const shuffled = <T>(all: readonly T[]) => fc.shuffledSubarray([...all], { minLength: all.length });
  fc.assert(
    fc.property(shuffled(routes), shuffled(services), (someRoutes, someServices) => {
      assert.equal(bytes(cluster({ routes: someRoutes, services: someServices })), expected);
    }),
  );
});
