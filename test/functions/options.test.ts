import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { type WrittenOptions, parseOptions } from '../../functions/options.ts';
import { HeadgateError } from '../../shared/error.ts';

const routerOf = (router: unknown): WrittenOptions['router'] => parseOptions({ router }, 'o.yaml').router;

function refusal(value: unknown): string {
  try {
    parseOptions(value, 'o.yaml');
  } catch (error) {
    assert.ok(error instanceof HeadgateError, String(error));
    assert.deepEqual([error.code, error.stage], ['bad-options', 'options']);
    assert.match(error.message, /^o\.yaml: /);
    assert.doesNotMatch(error.message, /\n/);
    return error.message.slice('o.yaml: '.length);
  }
  return assert.fail(`expected a refusal of ${JSON.stringify(value)}`);
}

test('what listens has a port of its own', () => {
  const refused = (router: Record<string, number>) => refusal({ router });
  assert.equal(refused({ httpPort: 8080, httpsPort: 8080 }), "router.httpsPort: expected a port other than router.httpPort's, found 8080");
  assert.equal(refused({ httpsPort: 1936 }), "router.httpsPort: expected a port other than router.statsPort's, found 1936");
  assert.equal(refused({ statsPort: 80 }), "router.statsPort: expected a port other than router.httpPort's, found 80");
});

describe('defaults', () => {
  test('are what the field has', () => {
    const { router, iptables } = parseOptions({}, 'o.yaml');
    assert.deepEqual([router.httpPort, router.httpsPort, router.statsPort, router.bindAddress], [80, 443, 1936, '*']);
    assert.deepEqual(
      [router.connectTimeout, router.serverTimeout, router.tunnelTimeout, router.hardStopAfter],
      [5_000, 30_000, 3_600_000, 3_600_000],
    );
    assert.deepEqual([router.maxConnections, router.bufferSize, router.maxRewriteSize], [50_000, 32_768, 8_192]);
    assert.deepEqual([router.balance, router.tcpBalance, router.forwardedHeaders], ['random', 'source', 'append']);
    assert.deepEqual(
      [router.allowWildcardRoutes, router.disableNamespaceOwnershipCheck, router.allowLoopbackEndpoints],
      [false, false, false],
    );
    assert.deepEqual(iptables, { clusterCIDRs: null, masqueradeAll: false, nodePortAddresses: [], localhostNodePorts: false });
  });

  test('stand for an empty file and for sections without keys', () => {
    const defaults = parseOptions({}, 'o.yaml');
    for (const value of [undefined, null, {}, { router: null }, { router: {}, iptables: null }])
      assert.deepEqual(parseOptions(value, 'o.yaml'), defaults);
  });

  test('stand beside what is given', () => {
    assert.deepEqual(routerOf({ httpPort: 8080 }), { ...routerOf({}), httpPort: 8080 });
  });
});

describe('values are read once, into one form', () => {
  test('durations', () => {
    for (const [text, ms] of [
      ['5s', 5_000],
      ['300ms', 300],
      ['1h', 3_600_000],
      ['2d', 172_800_000],
      [250, 250],
      ['250', 250],
      ['1500us', 2],
    ] as const) {
      assert.equal(routerOf({ serverTimeout: text }).serverTimeout, ms);
    }
  });

  test('domains', () => {
    assert.deepEqual(routerOf({ allowedDomains: ['Apps.Example.com.', '.example.org'] }).allowedDomains, [
      'apps.example.com',
      'example.org',
    ]);
    assert.deepEqual(routerOf({ deniedDomains: ['EXAMPLE.com'] }).deniedDomains, ['example.com']);
    assert.equal(routerOf({ domain: 'Apps.example.com' }).domain, 'apps.example.com');
    assert.equal(routerOf({ domain: null }).domain, null);
  });

  test('networks', () => {
    const { iptables } = parseOptions(
      { iptables: { clusterCIDRs: ['10.1.2.3/8', ' FD00::/8 '], nodePortAddresses: ['192.168.000.0/16'] } },
      'o.yaml',
    );
    assert.deepEqual(iptables.clusterCIDRs, ['10.0.0.0/8', 'fd00::/8']);
    assert.deepEqual(iptables.nodePortAddresses, ['192.168.0.0/16']);
    assert.deepEqual(parseOptions({ iptables: { clusterCIDRs: [] } }, 'o.yaml').iptables.clusterCIDRs, []);
  });

  test('addresses to bind', () => {
    for (const [text, read] of [
      ['*', '*'],
      ['127.0.0.1', '127.0.0.1'],
      ['010.0.0.1', '10.0.0.1'],
      ['0::0', '::'],
    ] as const) {
      assert.equal(routerOf({ bindAddress: text }).bindAddress, read);
    }
  });

  test('selectors', () => {
    for (const selector of ['', 'a=b', 'a=b,c in (d,e),!f']) {
      assert.equal(routerOf({ routeSelector: selector, namespaceSelector: selector }).routeSelector, selector);
    }
  });

  test('certificates: a path, PEM or the name of a Secret', () => {
    assert.equal(routerOf({ defaultCertificate: 'tls' }).defaultCertificate, 'tls');
    assert.deepEqual(routerOf({ defaultCertificate: { secret: 'web/tls' } }).defaultCertificate, { secret: 'web/tls' });
  });
});

describe('a key that is unknown', () => {
  const table: readonly (readonly [unknown, string])[] = [
    [{ rooter: {} }, 'rooter: unknown key; did you mean router?'],
    [{ httpPort: 1 }, 'httpPort: unknown key; did you mean router.httpPort?'],
    [{ router: { httpport: 1 } }, 'router.httpport: unknown key; did you mean router.httpPort?'],
    [{ router: { 'http-port': 1 } }, 'router.http-port: unknown key; did you mean router.httpPort?'],
    [{ router: { http_port: 1 } }, 'router.http_port: unknown key; did you mean router.httpPort?'],
    [{ router: { htpPort: 1 } }, 'router.htpPort: unknown key; did you mean router.httpPort?'],
    [{ router: { allowedDomain: [] } }, 'router.allowedDomain: unknown key; did you mean router.allowedDomains?'],
    [{ router: { masqueradeAll: true } }, 'router.masqueradeAll: unknown key; did you mean iptables.masqueradeAll?'],
    [{ iptables: { clusterCIDR: [] } }, 'iptables.clusterCIDR: unknown key; did you mean iptables.clusterCIDRs?'],
    [
      { router: { stats: { user: 'a', passwordFile: 'b', passwordfile: 'c' } } },
      'router.stats.passwordfile: unknown key; did you mean router.stats.passwordFile?',
    ],
    [
      { router: { defaultCertificate: { secret: 'a/b', Secret: 'a/b' } } },
      'router.defaultCertificate.Secret: unknown key; did you mean router.defaultCertificate.secret?',
    ],
    [{ router: { somethingElse: 1 } }, 'router.somethingElse: unknown key'],
    [{ router: { x: 1 } }, 'router.x: unknown key'],
    [{ router: { 'a\nb': 1 } }, 'router.a?b: unknown key'],
    [{ zzz: 1, router: { yyy: 1 } }, 'router.yyy: unknown key; zzz: unknown key'],
  ];
  for (const [value, message] of table) test(JSON.stringify(value), () => assert.equal(refusal(value), message));
});

describe('a value that is wrong: what was expected, what was found', () => {
  const table: readonly (readonly [unknown, string])[] = [
    [[], 'the file: expected keys and values, found a list'],
    ['text', 'the file: expected keys and values, found text'],
    [{ router: [] }, 'router: expected keys and values, found a list'],
    [{ router: { httpPort: '80' } }, 'router.httpPort: expected a whole number, found text'],
    [{ router: { httpPort: 1.5 } }, 'router.httpPort: expected a whole number, found 1.5'],
    [{ router: { httpPort: null } }, 'router.httpPort: expected a whole number, found nothing'],
    [{ router: { httpPort: 0 } }, 'router.httpPort: expected at least 1, found 0'],
    [{ router: { httpPort: 65_536 } }, 'router.httpPort: expected at most 65535, found 65536'],
    [{ router: { threads: 0 } }, 'router.threads: expected more than 0, found 0'],
    [{ router: { dynamic: 'yes' } }, 'router.dynamic: expected true or false, found text'],
    [{ router: { allowedDomains: 'example.com' } }, 'router.allowedDomains: expected a list, found text'],
    [{ router: { allowedDomains: ['a.com', 5] } }, 'router.allowedDomains[1]: expected text, found 5'],
    [{ router: { deniedDomains: ['*.a.com'] } }, 'router.deniedDomains[0]: expected a domain such as apps.example.com, found "*.a.com"'],
    [{ router: { domain: 'a b' } }, 'router.domain: expected a domain such as apps.example.com, found "a b"'],
    [{ router: { bindAddress: '127.0.0.1:80' } }, 'router.bindAddress: expected an IP address, or * for all of them, found "127.0.0.1:80"'],
    [{ router: { bindAddress: 'a\nb' } }, 'router.bindAddress: expected an IP address, or * for all of them, found "a\\nb"'],
    [{ router: { balance: 'first' } }, 'router.balance: expected one of roundrobin, leastconn, source, random, found "first"'],
    [{ router: { balance: 5 } }, 'router.balance: expected one of roundrobin, leastconn, source, random, found 5'],
    [{ router: { hardStopAfter: '5 minutes' } }, 'router.hardStopAfter: expected a duration such as 5s, 300ms or 1h, found "5 minutes"'],
    [{ router: { hardStopAfter: true } }, 'router.hardStopAfter: expected a duration such as 5s, 300ms or 1h, found true'],
    [{ router: { hardStopAfter: {} } }, 'router.hardStopAfter: expected a duration such as 5s, 300ms or 1h, found keys and values'],
    [
      { router: { routeSelector: 'a b' } },
      'router.routeSelector: expected a label selector such as app=web,tier in (a,b),!canary, found "a b"',
    ],
    [{ router: { defaultCertificate: 5 } }, 'router.defaultCertificate: expected a path, PEM, or secret: namespace/name, found 5'],
    [{ router: { defaultCertificate: ['a'] } }, 'router.defaultCertificate: expected a path, PEM, or secret: namespace/name, found a list'],
    [
      { router: { defaultCertificate: { secret: 'tls' } } },
      'router.defaultCertificate.secret: expected namespace/name of a Secret, found "tls"',
    ],
    [{ router: { defaultCertificate: { secret: 5 } } }, 'router.defaultCertificate.secret: expected text, found 5'],
    [{ router: { stats: { user: 'a' } } }, 'router.stats.passwordFile: expected text, found nothing'],
    [{ iptables: { clusterCIDRs: '10.0.0.0/8' } }, 'iptables.clusterCIDRs: expected a list, found text'],
    [{ iptables: { clusterCIDRs: ['10.0.0.1'] } }, 'iptables.clusterCIDRs[0]: expected a CIDR such as 10.0.0.0/8, found "10.0.0.1"'],
    [
      { iptables: { nodePortAddresses: ['10.0.0.0/8', 'x'] } },
      'iptables.nodePortAddresses[1]: expected a CIDR such as 10.0.0.0/8, found "x"',
    ],
  ];
  for (const [value, message] of table) test(JSON.stringify(value), () => assert.equal(refusal(value), message));

  test('everything that is wrong is said at once', () => {
    const message = refusal({ router: { httpPort: 0, dynamic: 1, nothing: 2 }, iptables: { masqueradeAll: 'x' } });
    for (const key of ['router.httpPort', 'router.dynamic', 'router.nothing', 'iptables.masqueradeAll'])
      assert.ok(message.includes(`${key}: `), message);
  });
});

describe('secrets in the wrong place are not repeated', () => {
  const secret = 'hunter2';
  const pem = `-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----`;
  const values = [
    { router: { stats: secret } },
    { router: { stats: { user: `admin:${secret}`, passwordFile: 'x' } } },
    { router: { stats: { user: 'admin', password: secret } } },
    { router: { stats: { user: 'admin', passwordFile: [secret] } } },
    { router: { defaultCertificate: [pem] } },
    { router: { defaultCertificate: { secret: pem } } },
    { router: { defaultCertificate: { pem } } },
    { router: { defaultDestinationCA: { pem } } },
    { router: { dynamic: pem, httpPort: pem, balance: pem, allowedDomains: [pem] } },
  ];
  for (const value of values) test(Object.keys(value.router).join(), () => assert.doesNotMatch(refusal(value), /hunter2/));
});

test('whatever is written, options or one line', () => {
  const words = [
    'router',
    'iptables',
    'httpPort',
    'stats',
    'user',
    'defaultCertificate',
    'secret',
    'clusterCIDRs',
    '__proto__',
    'constructor',
    'é\n',
  ];
  const value = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom<unknown>(null, true, 0, 80, -1, 'x', 'é\n', '*', '10.0.0.0/8', Number.NaN),
      fc.array(tie('value'), { maxLength: 2 }),
      fc.dictionary(fc.constantFrom(...words), tie('value'), { maxKeys: 4 }),
    ),
  })).value;
  fc.assert(
    fc.property(value, (written) => {
      try {
        parseOptions(written, 'o.yaml');
      } catch (error) {
        assert.ok(error instanceof HeadgateError, String(error));
        assert.match(error.message, /^o\.yaml: [\x20-\x7e]+$/);
      }
    }),
    { numRuns: 2_000 },
  );
});
