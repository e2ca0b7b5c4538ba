import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { RouteSettings, Termination } from '../../../functions/router/configuration.ts';
import { readSettings } from '../../../functions/router/settings.ts';
import { route } from './admission-fixtures.ts';
import { cases } from '../../fixtures/cases.ts';

const H = 'haproxy.router.openshift.io/';
const R = 'router.openshift.io/';

function read(annotations: Record<string, string>, termination: Termination = 'edge') {
  const { settings, problems } = readSettings(route({ meta: { annotations } }), termination);
  return { settings, problems: problems.map(({ reason, field }) => `${reason} ${field}`) };
}

const nothing = read({}).settings;

test('without annotations everything is the default of the router', () => {
  assert.deepEqual(nothing, {
    balance: null,
    allowList: null,
    timeoutServer: null,
    timeoutTunnel: null,
    rateLimit: null,
    podConcurrentConnections: null,
    forwardedHeaders: null,
    rewriteTarget: null,
    disableCookies: false,
    cookieName: null,
    cookieSameSite: null,
    hsts: null,
    h1AdjustCase: false,
    healthCheckInterval: null,
    headerEdits: [],
  });
});

describe('well-formed annotations', () => {
  const table: readonly (readonly [string, string, Partial<RouteSettings>])[] = [
    [`${H}balance`, 'leastconn', { balance: 'leastconn' }],
    [`${H}balance`, 'roundrobin', { balance: 'roundrobin' }],
    [`${H}balance`, 'source', { balance: 'source' }],
    [`${H}balance`, 'random', { balance: 'random' }],
    [`${H}timeout`, '5s', { timeoutServer: 5_000 }],
    [`${H}timeout`, '100', { timeoutServer: 100 }],
    [`${H}timeout`, '1us', { timeoutServer: 1 }],
    [`${H}timeout`, '100d', { timeoutServer: 2_147_483_647 }],
    [`${H}timeout-tunnel`, '1h', { timeoutTunnel: 3_600_000 }],
    [`${H}pod-concurrent-connections`, '10', { podConcurrentConnections: 10 }],
    [`${H}set-forwarded-headers`, 'if-none', { forwardedHeaders: 'if-none' }],
    [`${H}set-forwarded-headers`, 'never', { forwardedHeaders: 'never' }],
    [`${H}rewrite-target`, '/', { rewriteTarget: '/' }],
    [`${H}rewrite-target`, '/a"b\\c%d', { rewriteTarget: '/a"b\\c%d' }],
    [`${H}disable_cookies`, 'true', { disableCookies: true }],
    [`${H}disable_cookies`, 'false', {}],
    [`${H}h1-adjust-case`, 'true', { h1AdjustCase: true }],
    [`${H}hsts_header`, 'max-age=31536000', { hsts: 'max-age=31536000' }],
    [`${H}hsts_header`, 'max-age=0;includeSubDomains;preload', { hsts: 'max-age=0;includeSubDomains;preload' }],
    [`${H}hsts_header`, 'max-age=1; includeSubDomains; preload', { hsts: 'max-age=1; includeSubDomains; preload' }],
    [`${H}hsts_header`, 'max-age=1;preload', { hsts: 'max-age=1;preload' }],
    [`${R}cookie_name`, 'shop-1', { cookieName: 'shop-1' }],
    [`${R}cookie-same-site`, 'Strict', { cookieSameSite: 'Strict' }],
    [`${R}haproxy.health.check.interval`, '300ms', { healthCheckInterval: 300 }],
    [`${H}rate-limit-connections`, 'false', {}],
  ];
  for (const [name, value, expected] of table) {
    test(`${name}: ${value}`, () => assert.deepEqual(read({ [name]: value }), { settings: { ...nothing, ...expected }, problems: [] }));
  }
});

describe('a malformed annotation leaves out itself and is reported', () => {
  const table: readonly (readonly [string, readonly string[]])[] = [
    [`${H}balance`, ['', 'Random', 'first', 'random\n', 'toString']],
    [`${H}timeout`, ['', '0', '0s', '-5s', '5 s', '5S', '1.5s', '5s\n', 'abc']],
    [`${H}timeout-tunnel`, ['1 hour']],
    [`${H}pod-concurrent-connections`, ['', '0', '-1', '1e3', '01', '2147483648', '10 ']],
    [`${H}set-forwarded-headers`, ['Append', '']],
    [`${H}rewrite-target`, ['', 'x', '/a?b', '/a#b', '/a b', '/a\nb', '/a\0b']],
    [`${H}disable_cookies`, ['', 'yes', '1']],
    [`${H}h1-adjust-case`, ['on']],
    [`${H}rate-limit-connections`, ['yes', 'TRUE', '1']],
    [
      `${H}hsts_header`,
      ['', 'max-age', 'max-age=', 'max-age=x', 'max-age=1;x', 'max-age=1"', 'max-age=1;preload\n', 'preload', 'max-age=12345678901'],
    ],
    [`${R}cookie_name`, ['', 'a b', 'a;b', 'a=b', 'a"b', 'a\nb', 'ü', 'x'.repeat(257)]],
    [`${R}cookie-same-site`, ['lax', '']],
    [`${R}haproxy.health.check.interval`, ['0', 'soon']],
  ];
  for (const [name, values] of table) {
    for (const value of values) {
      test(`${name}: ${JSON.stringify(value).slice(0, 40)}`, () => {
        const expected = {
          settings: { ...nothing, balance: name === `${H}balance` ? null : 'source' },
          problems: [`InvalidAnnotation ${name}`],
        };
        assert.deepEqual(read({ [`${H}balance`]: 'source', [name]: value }), expected);
      });
    }
  }
});

describe('allow-lists', () => {
  const table: readonly (readonly [string, readonly string[], boolean])[] = [
    ['10.0.0.1', ['10.0.0.1'], true],
    ['  10.0.0.1\t192.168.0.0/16  2001:DB8::1 ', ['10.0.0.1', '192.168.0.0/16', '2001:db8::1'], true],
    ['10.1.2.3/8 10.0.0.0/8', ['10.0.0.0/8'], true],
    ['0.0.0.0/0 ::/0', ['0.0.0.0/0', '::/0'], true],
    ['10.0.0.1 evil 10.0.0.0/33', ['10.0.0.1'], false],
    ['10.0.0.1,10.0.0.2', [], false],
    ['', [], false],
    ['   ', [], false],
    ['evil', [], false],
  ];
  for (const [text, allowList, wellFormed] of table) {
    for (const name of ['ip_allowlist', 'ip_whitelist'].map((own) => `${H}${own}`)) {
      test(`${name}: ${JSON.stringify(text)}`, () => {
        const expected = { settings: { ...nothing, allowList }, problems: wellFormed ? [] : [`InvalidAnnotation ${name}`] };
        assert.deepEqual(read({ [name]: text }), expected);
      });
    }
  }

  test('the newer name wins, also when it is malformed', () => {
    assert.deepEqual(read({ [`${H}ip_allowlist`]: '10.0.0.1', [`${H}ip_whitelist`]: '10.0.0.2' }).settings.allowList, ['10.0.0.1']);
    assert.deepEqual(read({ [`${H}ip_allowlist`]: 'evil', [`${H}ip_whitelist`]: '10.0.0.2' }).settings.allowList, []);
  });

  test('a report of many items is short', () => {
    const [problem] = readSettings(
      route({ meta: { annotations: { [`${H}ip_allowlist`]: Array.from({ length: 1_000 }, (_, index) => `bad${index}`).join(' ') } } }),
      'edge',
    ).problems;
    assert.match(problem?.message ?? '', /"bad4", and 995 more; without a valid item nobody is let in$/);
  });
});

describe('rate limits', () => {
  const limits = {
    [`${H}rate-limit-connections.concurrent-tcp`]: '10',
    [`${H}rate-limit-connections.rate-tcp`]: '20',
    [`${H}rate-limit-connections.rate-http`]: '30',
  };

  test('hold when they are switched on', () => {
    const { settings, problems } = read({ ...limits, [`${H}rate-limit-connections`]: 'true' });
    assert.deepEqual(settings.rateLimit, { concurrentTcp: 10, rateTcp: 20, rateHttp: 30 });
    assert.deepEqual(problems, []);
    assert.equal(read(limits).settings.rateLimit, null);
    assert.equal(read({ ...limits, [`${H}rate-limit-connections`]: 'false' }).settings.rateLimit, null);
  });

  test('a malformed one leaves the others', () => {
    const { settings, problems } = read({
      ...limits,
      [`${H}rate-limit-connections`]: 'true',
      [`${H}rate-limit-connections.rate-tcp`]: '0',
    });
    assert.deepEqual(settings.rateLimit, { concurrentTcp: 10, rateTcp: null, rateHttp: 30 });
    assert.deepEqual(problems, [`InvalidAnnotation ${H}rate-limit-connections.rate-tcp`]);
  });

  test('passthrough has no requests to count', () => {
    const { settings, problems } = read({ ...limits, [`${H}rate-limit-connections`]: 'true' }, 'passthrough');
    assert.deepEqual(settings.rateLimit, { concurrentTcp: 10, rateTcp: 20, rateHttp: null });
    assert.deepEqual(problems, [`SettingIgnored ${H}rate-limit-connections.rate-http`]);
  });
});

describe('what has no effect on a termination is reported', () => {
  test('HSTS on plain http', () => {
    assert.deepEqual(read({ [`${H}hsts_header`]: 'max-age=1' }, 'http'), {
      settings: nothing,
      problems: [`SettingIgnored ${H}hsts_header`],
    });
  });

  test('what needs requests, on passthrough', () => {
    const annotations = { [`${H}rewrite-target`]: '/', [`${R}cookie_name`]: 'x', [`${H}hsts_header`]: 'bad', [`${H}balance`]: 'leastconn' };
    const { settings, problems } = read(annotations, 'passthrough');
    assert.deepEqual(settings, { ...nothing, balance: 'leastconn' });
    assert.deepEqual(problems.toSorted(), [
      `SettingIgnored ${H}hsts_header`,
      `SettingIgnored ${H}rewrite-target`,
      `SettingIgnored ${R}cookie_name`,
    ]);
  });

  test('header actions on passthrough', () => {
    const action = { direction: 'request', name: 'X', action: { type: 'Delete' } } as const;
    const { settings, problems } = readSettings(route({ headerActions: [action, action] }), 'passthrough');
    assert.deepEqual(settings.headerEdits, []);
    assert.deepEqual(
      problems.map(({ reason, field }) => [reason, field]),
      [['SettingIgnored', 'spec.httpHeaders.actions']],
    );
  });

  test('misspelt annotations of ours, not those of others', () => {
    const annotations = { [`${H}time-out`]: '5s', [`${R}toString`]: '', 'example.com/timeout': '5s', __proto__: 'x' };
    assert.deepEqual(read(annotations).problems, [`UnknownAnnotation ${H}time-out`, `UnknownAnnotation ${R}toString`]);
  });
});

test('the timeout of a passthrough route is its tunnel', () => {
  const timeouts = (annotations: Record<string, string>) => {
    const { timeoutServer, timeoutTunnel } = read(annotations, 'passthrough').settings;
    return [timeoutServer, timeoutTunnel];
  };
  assert.deepEqual(timeouts({ [`${H}timeout`]: '5s' }), [null, 5_000]);
  assert.deepEqual(timeouts({ [`${H}timeout`]: '5s', [`${H}timeout-tunnel`]: '9s' }), [null, 9_000]);
  assert.deepEqual(timeouts({ [`${H}timeout`]: '5s', [`${H}timeout-tunnel`]: 'bad' }), [null, 5_000]);
});

test('no hostile value becomes a setting that could leave its place', () => {
  const names = ['balance', 'ip_allowlist', 'timeout', 'rewrite-target', 'hsts_header', 'set-forwarded-headers'].map(
    (name) => `${H}${name}`,
  );
  const value = fc
    .tuple(
      fc.constantFrom('/', 'max-age=1', '10.0.0.1', 'random', '5s', ''),
      fc.constantFrom('\n', '\r', '\0', '"', ' ', '\t', ';'),
      fc.string(),
    )
    .map((parts) => parts.join(''));
  fc.assert(
    fc.property(fc.constantFrom(...names, `${R}cookie_name`), fc.oneof(value, fc.string({ unit: 'binary' })), (name, text) => {
      const { settings, problems } = readSettings(route({ meta: { annotations: { [name]: text } } }), 'edge');
      const { allowList, rewriteTarget, cookieName, hsts } = settings;
      const texts = [...(allowList ?? []), rewriteTarget, cookieName].filter((one) => one !== null);
      for (const one of texts) assert.doesNotMatch(one, /[\p{Cc}\p{Cs} ]/u);
      assert.match(hsts ?? '', /^[a-z0-9=; -]*$/i);
      for (const { message } of problems) assert.match(message, /^[\x20-\x7e]*$/);
    }),
    { numRuns: cases(5_000, 50_000) },
  );
});
