import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { buildRouter } from '../../../functions/router/build.ts';
import type { AdmittedRoute, RouteSettings } from '../../../functions/router/configuration.ts';
import { renderRouter } from '../../../functions/router/render.ts';
import type { Files } from '../../../shared/files.ts';
import { isSafePath } from '../../../shared/files.ts';
import { composeRouter, readBackendStates } from '../../../shared/router/compose.ts';
import { checkFiles, noHaproxy } from '../../fixtures/run-haproxy.ts';
import {
  behind,
  composed,
  configuration,
  endpoint,
  endpointsOf,
  noSettings,
  options,
  route,
  selfSigned,
  stanza,
  text,
} from './fixtures.ts';
import { cases } from '../../fixtures/cases.ts';

const everySetting: RouteSettings = {
  ...noSettings,
  balance: 'source',
  allowList: Array.from({ length: 100 }, (_, index) => `10.0.${index}.0/24`),
  timeoutServer: 1_000,
  timeoutTunnel: 2_147_483_647,
  rateLimit: { concurrentTcp: 1, rateTcp: 2, rateHttp: 3 },
  podConcurrentConnections: 10,
  forwardedHeaders: 'if-none',
  rewriteTarget: '/%"\\$é',
  cookieName: "it's$#a",
  cookieSameSite: 'Strict',
  hsts: 'max-age=1;includeSubDomains',
  h1AdjustCase: true,
  healthCheckInterval: 100,
  headerEdits: [
    { direction: 'request', name: "X-'#$%", action: 'set', value: `${'a"\\$% '.repeat(2_000)}%[req.hdr(X)]` },
    { direction: 'response', name: 'X-B', action: 'set', value: '%[res.hdr(Y),lower] %[ssl_c_der,base64] %%' },
    { direction: 'response', name: 'X-C', action: 'delete' },
  ],
};

const routes: readonly AdmittedRoute[] = [
  route('http', { settings: everySetting, path: '/"\\$\'#x' }),
  route('edge', { termination: 'edge', insecure: 'redirect', settings: everySetting }),
  route('reencrypt', { termination: 'reencrypt', insecure: 'allow', settings: everySetting, destinationCA: 'certificates/default.pem' }),
  route('passthrough', { termination: 'passthrough', insecure: 'redirect', settings: everySetting }),
  route('wildcard', { termination: 'edge', wildcard: true, settings: { rewriteTarget: '/', forwardedHeaders: 'replace', allowList: [] } }),
  route('bare'),
  route('own', { termination: 'edge', host: 'own.test', certificate: { path: 'certificates/own.pem', fingerprint: 'o' } }),
];
const endpoints = endpointsOf(...routes.map(({ name }) => behind(name, [endpoint('10.0.0.1'), endpoint('fd00::2')])));

describe('what HAProxy is given', () => {
  test('it takes every setting and option without a word', { skip: noHaproxy }, async () => {
    const standard = await selfSigned('default.test');
    const certificates = new Map([
      ['router/certificates/default.pem', standard],
      ['router/certificates/own.pem', await selfSigned('own.test')],
      ['router/secrets/stats-password', 'secret'],
    ]);
    const variants = [
      {},
      { statsUser: 'a"b', disableHttp2: true, threads: 2, bindAddress: '127.0.0.1', balance: 'leastconn', tcpBalance: 'roundrobin' },
      { bindAddress: '::1', forwardedHeaders: 'never', bufferSize: 65_536, balance: 'source' },
    ] as const;
    for (const variant of variants) {
      const configured = configuration(routes, { options: options(variant), defaultDestinationCA: 'certificates/default.pem' });
      assert.deepEqual(await checkFiles(composed(configured, endpoints, certificates)), { status: 0, said: '' });
    }
    assert.deepEqual(await checkFiles(composed(configuration([]), new Map(), certificates)), { status: 0, said: '' });
  });

  test('no text of a route adds a line', () => {
    const hostile = fc.string({ unit: fc.constantFrom('\n', '\r', '"', "'", '\\', '$', '%', ' ', '#', '{', '[', 'a', '\0', '\u2028') });
    const lines = (files: Files) =>
      [...files.keys()].flatMap((path) => (/config|maps|crt-list/.test(path) ? text(files, path).split('\n') : []));
    const withText = (value: string) =>
      composed(
        configuration([
          route('a', {
            termination: 'edge',
            path: '/a',
            certificate: { path: `certificates/${value}.pem`, fingerprint: value },
            settings: {
              rewriteTarget: `/${value}`,
              cookieName: `c${value}`,
              hsts: value,
              allowList: [value],
              headerEdits: [
                { direction: 'request', name: `n${value}`, action: 'set', value },
                { direction: 'response', name: `n${value}`, action: 'delete' },
              ],
            },
          }),
        ]),
        endpointsOf(behind('a', [endpoint('10.0.0.1', { pod: value })], [{ name: value, port: 1, protocol: 'TCP', appProtocol: value }])),
      );
    const expected = lines(withText('x')).length;
    fc.assert(
      fc.property(hostile, (value) => {
        fc.pre(value !== '');
        const written = lines(withText(value));
        assert.equal(written.length, expected);
        assert.ok(written.every((line) => !/[\r\0]/.test(line)));
      }),
      { numRuns: cases(60, 1_000) },
    );
  });

  test('a host or path that a map cannot hold is rejected alone', () => {
    const bad = ['/a b', '/a\nb', '/?', `/${'a'.repeat(9_000)}`].map((path, index) => route(`bad${index}`, { path }));
    const state = buildRouter(configuration([...bad, route('good')]), new Map());
    assert.deepEqual(
      state.backends.map(({ name }) => name),
      ['be_http:ns:good'],
    );
    assert.deepEqual(
      state.rejections.map(({ name, scope, reason }) => `${name} ${scope} ${reason}`),
      bad.map(({ name }) => `${name} object InvalidPath`),
    );
  });
});

describe('files of a version', () => {
  const render = (listed: readonly AdmittedRoute[], behindThem = endpoints, changed = {}) =>
    renderRouter(buildRouter(configuration(listed, { options: options(changed) }), behindThem));
  const changedPaths = (before: Files, after: Files) =>
    [...new Set([...before.keys(), ...after.keys()])].filter((path) => before.get(path) !== after.get(path)).toSorted();

  test('have safe paths, and the same bytes in whatever order endpoints were listed', () => {
    const files = render(routes);
    assert.ok([...files.keys()].every(isSafePath));
    const reversed = new Map([...endpoints].toReversed());
    assert.deepEqual(changedPaths(files, render(routes, reversed)), []);
  });

  test('an endpoint changes its backend’s state and nothing that HAProxy reads at start', () => {
    const moved = new Map([...endpoints, ...endpointsOf(behind('bare', [endpoint('10.0.0.9')]))]);
    const [state, summary, ...others] = changedPaths(render(routes), render(routes, moved)).toReversed();
    assert.match(state ?? '', /^routes\/|^router\/state\//);
    assert.match(summary ?? '', /^routes\/|^router\/state\//);
    assert.deepEqual(others, []);
    const fixed = (files: Files) => [...readBackendStates(files).values()].map((backend) => backend.fixed);
    assert.deepEqual(fixed(render(routes)), fixed(render(routes, moved)));
  });

  test('without runtime changes every change of a backend is a change of its fixed part', () => {
    const fixed = (files: Files) => readBackendStates(files).get('be_http:ns:bare')?.fixed;
    const moved = new Map([...endpoints, ...endpointsOf(behind('bare', [endpoint('10.0.0.9')]))]);
    const renamed = routes.map((one) => (one.name === 'bare' ? { ...one, host: 'other.test' } : one));
    assert.equal(fixed(render(routes)), fixed(render(renamed)));
    assert.notEqual(fixed(render(routes, endpoints, { dynamic: false })), fixed(render(routes, moved, { dynamic: false })));
    assert.notEqual(fixed(render(routes, endpoints, { dynamic: false })), fixed(render(renamed, endpoints, { dynamic: false })));
  });

  test('the base does not depend on routes', () => {
    assert.equal(render(routes).get('router/config/00-base.cfg'), render([]).get('router/config/00-base.cfg'));
  });
});

describe('custom templates', () => {
  const withTemplates = (templates: Record<string, string>) =>
    composed(configuration([route('a')], { options: options({ templates }) }), endpointsOf(behind('a', [endpoint('10.0.0.1')])));

  test('replace ours by name', () => {
    const files = withTemplates({
      backend: 'backend {{word name}}\n  # mine {{quoted name}}\n    {{servers}}\n',
      base: 'global\n  maxconn {{options.maxConnections}}\n',
    });
    assert.match(
      stanza(files, 'be_http:ns:a'),
      /^backend be_http:ns:a\n {2}# mine "be_http:ns:a"\n {2}server pod:\S+ 10\.0\.0\.1:8080 id \d+ weight 1\n$/,
    );
    assert.equal(text(files, 'router/config/00-base.cfg'), 'global\n  maxconn 50000\n');
  });

  test('errors name the template and the line', () => {
    const broken: readonly [Record<string, string>, RegExp][] = [
      [{ base: 'global\n{{#if}\n' }, /base\.hbs line 2: /],
      [{ backend: 'backend x\n\n  {{nothing}}\n' }, /backend\.hbs line 3: "nothing" not defined/],
      [{ backend: 'backend x\n{{nothing name}}\n' }, /backend\.hbs line 2: /],
      [{ backend: '\n{{> missing}}\n' }, /backend\.hbs/],
    ];
    for (const [templates, message] of broken)
      assert.throws(() => withTemplates(templates), { name: 'HeadgateError', code: 'bad-template', message });
  });
});

test('composing needs nothing but the files', () => {
  const files = renderRouter(buildRouter(configuration(routes), endpoints));
  assert.deepEqual([...composeRouter(new Map([...files].toReversed()))], [...composeRouter(files)]);
});
