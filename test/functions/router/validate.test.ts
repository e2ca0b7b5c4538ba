import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { RouterOptions } from '../../../functions/options.ts';
import { isProblem } from '../../../functions/router/problem.ts';
import { validateRoute } from '../../../functions/router/validate.ts';
import { type RouteChanges, route, routerOptions } from './admission-fixtures.ts';
import { cases } from '../../fixtures/cases.ts';

/** `field reason` of what is wrong with the route, or `valid`. */
function judge(changes: RouteChanges, options: Partial<RouterOptions> = {}): string {
  const judged = validateRoute(route(changes), routerOptions(options));
  return isProblem(judged) ? `${judged.field} ${judged.reason}` : 'valid';
}

/** One field of a valid route. */
function valid(changes: RouteChanges, options: Partial<RouterOptions> = {}) {
  const judged = validateRoute(route(changes), routerOptions(options));
  if (isProblem(judged)) return assert.fail(`${judged.reason}: ${judged.message}`);
  return judged;
}

describe('hosts', () => {
  const label = 'a'.repeat(63);
  const longest = `${label}.${label}.${label}.${'a'.repeat(61)}`;
  const table: readonly (readonly [string | null, string])[] = [
    ['www.example.com', 'valid'],
    ['localhost', 'valid'],
    ['1-2.example.com', 'valid'],
    ['10.0.0.1', 'valid'],
    [longest, 'valid'],
    [`a${longest}`, 'spec.host InvalidHost'],
    [`${label}a.com`, 'spec.host InvalidHost'],
    ['', 'spec.host NoHostValue'],
    [null, 'spec.host NoHostValue'],
    ['WWW.example.com', 'spec.host InvalidHost'],
    ['www.example.com.', 'spec.host InvalidHost'],
    ['*.example.com', 'spec.host InvalidHost'],
    ['www.example.com:80', 'spec.host InvalidHost'],
    ['-a.example.com', 'spec.host InvalidHost'],
    ['a-.example.com', 'spec.host InvalidHost'],
    ['a..example.com', 'spec.host InvalidHost'],
    ['.example.com', 'spec.host InvalidHost'],
    ['a_b.example.com', 'spec.host InvalidHost'],
    ['bücher.example.com', 'spec.host InvalidHost'],
    ['www.example.com\n', 'spec.host InvalidHost'],
    ['a b.example.com', 'spec.host InvalidHost'],
    ['::1', 'spec.host InvalidHost'],
  ];
  for (const [host, expected] of table) {
    test(`${JSON.stringify(host).slice(0, 40)}: ${expected}`, () => assert.equal(judge({ host }), expected));
  }

  test('a subdomain is completed by the router domain', () => {
    const fields = valid({ host: null, subdomain: 'shop' }, { domain: 'apps.example.com' });
    assert.deepEqual([fields.host, fields.displayHost], ['shop.apps.example.com', 'shop.apps.example.com']);
    assert.equal(valid({ host: '', subdomain: 'shop' }, { domain: 'apps.example.com' }).host, 'shop.apps.example.com');
    assert.equal(valid({ host: 'own.example.com', subdomain: 'shop' }, { domain: 'apps.example.com' }).host, 'own.example.com');
  });

  test('a subdomain without a router domain names no host', () => {
    assert.equal(judge({ host: null, subdomain: 'shop' }), 'spec.subdomain NoHostValue');
    assert.equal(judge({ host: null, subdomain: 'Shop' }, { domain: 'example.com' }), 'spec.subdomain InvalidHost');
  });
});

describe('wildcards', () => {
  const allowed = { allowWildcardRoutes: true };

  test('lose the first label', () => {
    const fields = valid({ wildcardPolicy: 'Subdomain' }, allowed);
    assert.deepEqual([fields.host, fields.displayHost, fields.wildcard], ['example.com', 'www.example.com', true]);
    assert.equal(valid({ wildcardPolicy: 'None' }, allowed).wildcard, false);
    assert.equal(valid({ wildcardPolicy: '' }, allowed).host, 'www.example.com');
  });

  test('are not admitted where the router does not allow them, or with another policy', () => {
    assert.equal(judge({ wildcardPolicy: 'Subdomain' }), 'spec.wildcardPolicy RouteNotAdmitted');
    assert.equal(judge({ wildcardPolicy: 'All' }, allowed), 'spec.wildcardPolicy RouteNotAdmitted');
  });

  test('need a domain above them', () =>
    assert.equal(judge({ host: 'www', wildcardPolicy: 'Subdomain' }, allowed), 'spec.host InvalidHost'));
});

describe('domains', () => {
  const refused = 'spec.host RouteNotAdmitted';
  const table: readonly (readonly [string, string[], string[], string])[] = [
    ['www.example.com', ['example.com'], [], 'valid'],
    ['example.com', ['example.com'], [], 'valid'],
    ['badexample.com', ['example.com'], [], refused],
    ['www.example.org', ['example.com', 'example.org'], [], 'valid'],
    ['www.example.com', [], ['example.com'], refused],
    ['badexample.com', [], ['example.com'], 'valid'],
    ['www.example.com', ['example.com'], ['www.example.com'], refused],
    ['api.example.com', ['example.com'], ['www.example.com'], 'valid'],
  ];
  for (const [host, allowedDomains, deniedDomains, expected] of table) {
    test(`${host}, allowed [${allowedDomains.join()}], denied [${deniedDomains.join()}]: ${expected}`, () => {
      assert.equal(judge({ host }, { allowedDomains, deniedDomains }), expected);
    });
  }

  test('a wildcard is judged by all that it would serve', () => {
    const wildcard = { wildcardPolicy: 'Subdomain' };
    const allowWildcardRoutes = true;
    assert.equal(judge(wildcard, { allowWildcardRoutes, allowedDomains: ['example.com'] }), 'valid');
    assert.equal(judge(wildcard, { allowWildcardRoutes, allowedDomains: ['www.example.com'] }), refused);
    assert.equal(judge(wildcard, { allowWildcardRoutes, deniedDomains: ['secret.example.com'] }), refused);
    assert.equal(judge(wildcard, { allowWildcardRoutes, deniedDomains: ['very.secret.example.com'] }), 'valid');
  });
});

describe('paths', () => {
  const table: readonly (readonly [string | null, string])[] = [
    [null, ''],
    ['', ''],
    ['/', ''],
    ['/sub', '/sub'],
    ['/sub/', '/sub/'],
    ['/a"b\'c\\d%20$e{f}(g)[h].*', '/a"b\'c\\d%20$e{f}(g)[h].*'],
    ['/bücher/日本', '/bücher/日本'],
    [`/${'a'.repeat(2_047)}`, `/${'a'.repeat(2_047)}`],
  ];
  for (const [path, expected] of table) {
    test(`${JSON.stringify(path).slice(0, 40)} is served`, () => assert.equal(valid({ path }).path, expected));
  }

  const bad = [
    'sub',
    '/a?b',
    '/a#b',
    '/a b',
    '/a\tb',
    '/a\nb',
    '/a\0',
    '/a\x7f',
    '/a\x85',
    '/a\u2028b',
    '/a\ud800',
    `/${'é'.repeat(1_024)}`,
  ];
  for (const path of bad) {
    test(`${JSON.stringify(path).slice(0, 40)} is refused`, () => assert.equal(judge({ path }), 'spec.path InvalidPath'));
  }
});

describe('TLS', () => {
  const table: readonly (readonly [string, string | null, string])[] = [
    ['edge', null, 'edge none'],
    ['edge', '', 'edge none'],
    ['edge', 'None', 'edge none'],
    ['edge', 'Allow', 'edge allow'],
    ['reencrypt', 'Redirect', 'reencrypt redirect'],
    ['passthrough', 'Redirect', 'passthrough redirect'],
    ['passthrough', null, 'passthrough none'],
  ];
  for (const [termination, insecurePolicy, expected] of table) {
    test(`${termination} with ${insecurePolicy}`, () => {
      const fields = valid({ tls: { termination, insecurePolicy } });
      assert.equal(`${fields.termination} ${fields.insecure}`, expected);
    });
  }

  test('none at all is plain http', () => {
    const fields = valid({ tls: null });
    assert.deepEqual([fields.termination, fields.insecure], ['http', 'allow']);
  });

  test('what is no termination or no policy is refused', () => {
    assert.equal(judge({ tls: { termination: '' } }), 'spec.tls.termination InvalidTermination');
    assert.equal(judge({ tls: { termination: 'Edge' } }), 'spec.tls.termination InvalidTermination');
    const policy = 'spec.tls.insecureEdgeTerminationPolicy InvalidInsecurePolicy';
    assert.equal(judge({ tls: { insecurePolicy: 'redirect' } }), policy);
    assert.equal(judge({ tls: { termination: 'passthrough', insecurePolicy: 'Allow' } }), policy);
  });

  test('a passthrough route has no path', () => {
    const tls = { termination: 'passthrough' };
    assert.equal(judge({ tls, path: '/sub' }), 'spec.path InvalidPath');
    assert.equal(judge({ tls, path: '/' }), 'valid');
  });
});

describe('services', () => {
  const target = (name: string, weight: number | null = null, kind = 'Service') => ({ kind, name, weight });
  const services = (to: ReturnType<typeof target>, ...alternateBackends: ReturnType<typeof target>[]) =>
    valid({ to, alternateBackends }).services.map(({ name, weight }) => `${name} ${weight}`);

  test('weights are 1 by default and lie within 0 and 256', () => {
    assert.deepEqual(services(target('a'), target('b', 0), target('c', -5), target('d', 300), target('e', 256)), [
      'a 1',
      'b 0',
      'c 0',
      'd 256',
      'e 256',
    ]);
  });

  test('of a service named twice the last weight holds', () => {
    assert.deepEqual(services(target('a', 10), target('b', 20), target('a', 30)), ['a 30', 'b 20']);
  });

  test('other kinds and bad names are refused', () => {
    assert.equal(judge({ to: target('a', 1, 'Pod') }), 'spec.to InvalidTarget');
    assert.equal(judge({ to: target('a', 1, '') }), 'valid');
    assert.equal(judge({ to: target('a b') }), 'spec.to InvalidTarget');
    assert.equal(judge({ alternateBackends: [target('b'), target('')] }), 'spec.alternateBackends[1] InvalidTarget');
  });
});

describe('target ports', () => {
  for (const [port, expected] of [
    [null, null],
    [8080, 8080],
    ['8080', 8080],
    ['http', 'http'],
    ['2http', '2http'],
  ] as const) {
    test(JSON.stringify(port), () => assert.equal(valid({ targetPort: port }).targetPort, expected));
  }
  for (const port of [0, 65_536, -1, 1.5, '0', '65536', '', 'HTTP', 'a b', ' 80', '80\n']) {
    test(`${JSON.stringify(port)} is refused`, () => {
      assert.equal(judge({ targetPort: port }), 'spec.port.targetPort InvalidTargetPort');
    });
  }
});

test('no hostile text gets through a field', () => {
  const hostile = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc
      .tuple(fc.constantFrom('/', 'a', 'a.', ''), fc.constantFrom('\n', '\r', '\0', '\x1b', ' ', '\u2028', '\ud800'), fc.string())
      .map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(hostile, hostile, hostile, hostile, (host, path, name, port) => {
      const changes: RouteChanges[] = [
        { host },
        { path },
        { to: { kind: 'Service', name, weight: 1 } },
        { targetPort: port },
        { meta: { name } },
      ];
      for (const change of changes) {
        const judged = validateRoute(route(change), routerOptions());
        if (isProblem(judged)) assert.match(judged.message, /^[\x20-\x7e]*$/);
        else {
          const texts = [judged.host, judged.path, judged.targetPort, ...judged.services.map((one) => one.name)];
          assert.doesNotMatch(texts.join(''), /[\p{Cc}\p{Cs} ]/u);
        }
      }
    }),
    { numRuns: cases(2_000, 20_000) },
  );
});
