import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { buildRouter } from '../../../functions/router/build.ts';
import type { AdmittedRoute, RoutedService, RouterConfiguration } from '../../../functions/router/configuration.ts';
import type { Endpoints } from '../../../shared/endpoint.ts';
import { behind, configuration, endpoint, endpointsOf, options, route, webPort } from './fixtures.ts';
import { cases } from '../../fixtures/cases.ts';

const serversOf = (routed: AdmittedRoute, endpoints: Endpoints, changed: Partial<RouterConfiguration> = {}) =>
  buildRouter(configuration([routed], changed), endpoints).backends[0]?.servers ?? [];

const addressesOf = (routed: AdmittedRoute, endpoints: Endpoints, changed: Partial<RouterConfiguration> = {}) =>
  serversOf(routed, endpoints, changed).map(({ address, port, weight }) => `${address}:${port} ${weight}`);

const idle = (ports: RoutedService['ports']): RoutedService => ({ namespace: 'ns', name: 'a', idledClusterIP: '172.30.0.5', ports });
const down = { ready: false, serving: false };
const leaving = { ready: false, serving: true, terminating: true };

describe('which endpoints become servers', () => {
  test('ready ones; those that serve while they terminate only when none is ready', () => {
    const mixed = [endpoint('10.0.0.1'), endpoint('10.0.0.2', leaving), endpoint('10.0.0.3', down)];
    assert.deepEqual(addressesOf(route('a'), endpointsOf(behind('a', mixed))), ['10.0.0.1:8080 1']);
    assert.deepEqual(addressesOf(route('a'), endpointsOf(behind('a', mixed.slice(1)))), ['10.0.0.2:8080 1']);
    assert.deepEqual(addressesOf(route('a'), endpointsOf(behind('a', mixed.slice(2)))), []);
    assert.deepEqual(addressesOf(route('a'), new Map()), []);
  });

  test('the port that the route names, by name or number, TCP only; all of them when it names none', () => {
    const ports = [webPort, { ...webPort, name: 'admin', port: 9090 }, { ...webPort, name: 'dns', port: 53, protocol: 'UDP' as const }];
    const endpoints = endpointsOf(behind('a', [endpoint('10.0.0.1')], ports));
    const portsOf = (targetPort: string | number | null) => serversOf(route('a', { targetPort }), endpoints).map(({ port }) => port);
    assert.deepEqual(portsOf(null), [9090, 8080]);
    assert.deepEqual(portsOf('admin'), [9090]);
    assert.deepEqual(portsOf(8080), [8080]);
    assert.deepEqual(portsOf('8080'), [8080]);
    assert.deepEqual(portsOf(80), []);
    assert.deepEqual(portsOf('dns'), []);
  });

  test('an address and port once, for the first service with a weight', () => {
    const twice = behind('a', [endpoint('10.0.0.1'), endpoint('10.0.0.1')], [webPort, { ...webPort, name: 'again' }]);
    assert.deepEqual(addressesOf(route('a'), endpointsOf(twice)), ['10.0.0.1:8080 1']);
    const shared = route('a', {
      services: [
        { name: 'a', weight: 0 },
        { name: 'b', weight: 3 },
      ],
    });
    assert.deepEqual(addressesOf(shared, endpointsOf(twice, behind('b', [endpoint('10.0.0.1')]))), ['10.0.0.1:8080 1']);
  });

  test('only addresses that a pod can have; the others are reported once for a service', () => {
    const bad = ['127.0.0.1', '::1', '0.0.0.0', '169.254.1.1', '169.254.169.254', '224.0.0.1', 'fe80::1', 'not an address'];
    const endpoints = endpointsOf(
      behind(
        'a',
        [...bad, '10.0.0.1'].map((address) => endpoint(address)),
      ),
    );
    const routes = [route('a'), route('second', { services: [{ name: 'a', weight: 1 }] })];
    const state = buildRouter(configuration(routes), endpoints);
    assert.deepEqual(
      state.backends.map(({ servers }) => servers.map(({ address }) => address)),
      [['10.0.0.1'], ['10.0.0.1']],
    );
    assert.deepEqual(
      state.rejections.map(({ kind, name, scope, reason }) => ({ kind, name, scope, reason })),
      [{ kind: 'Service', name: 'a', scope: 'setting', reason: 'EndpointAddressNotAllowed' }],
    );
    const allowed = { options: options({ allowLoopbackEndpoints: true }) };
    assert.deepEqual(
      serversOf(route('a'), endpoints, allowed)
        .map(({ address }) => address)
        .toSorted(),
      ['10.0.0.1', '127.0.0.1', '::1'],
    );
  });

  test('an idled service is its cluster IP and port, unchecked, while it has no endpoints', () => {
    const ports = [
      { name: 'web', port: 80, targetPort: 8080, appProtocol: null },
      { name: 'admin', port: 81, targetPort: 'adm', appProtocol: null },
    ];
    const changed = { services: [idle(ports)] };
    assert.deepEqual(addressesOf(route('a'), new Map(), changed), ['172.30.0.5:81 1', '172.30.0.5:80 1']);
    assert.deepEqual(addressesOf(route('a', { targetPort: 'admin' }), new Map(), changed), ['172.30.0.5:81 1']);
    assert.deepEqual(addressesOf(route('a', { targetPort: 8080 }), new Map(), changed), ['172.30.0.5:80 1']);
    assert.ok(serversOf(route('a'), new Map(), changed).every(({ checkInterval }) => checkInterval === null));
    assert.deepEqual(addressesOf(route('a'), endpointsOf(behind('a', [endpoint('10.0.0.1')])), changed), ['10.0.0.1:8080 1']);
    assert.deepEqual(addressesOf(route('a'), endpointsOf(behind('a', [endpoint('10.0.0.1', down)])), changed), []);
  });

  test('an idled service on a loopback address serves only where that is allowed', () => {
    const ports = [{ name: 'web', port: 80, targetPort: 8080, appProtocol: null }];
    const services = [{ ...idle(ports), idledClusterIP: '127.0.0.5' }];
    assert.deepEqual(addressesOf(route('a'), new Map(), { services }), []);
    const allowed = { services, options: options({ allowLoopbackEndpoints: true }) };
    assert.deepEqual(addressesOf(route('a'), new Map(), allowed), ['127.0.0.5:80 1']);
  });
});

describe('how servers are written', () => {
  const two = endpointsOf(behind('a', [endpoint('10.0.0.1'), endpoint('10.0.0.2')]));

  test('checked when there is more than one active endpoint, at the route’s interval or the router’s', () => {
    const intervals = (routed: AdmittedRoute, endpoints: Endpoints) =>
      serversOf(routed, endpoints).map(({ checkInterval }) => checkInterval);
    assert.deepEqual(intervals(route('a'), two), [5_000, 5_000]);
    assert.deepEqual(intervals(route('a', { settings: { healthCheckInterval: 700 } }), two), [700, 700]);
    assert.deepEqual(intervals(route('a'), endpointsOf(behind('a', [endpoint('10.0.0.1')]))), [null]);
    const drained = route('a', {
      services: [
        { name: 'a', weight: 0 },
        { name: 'b', weight: 1 },
      ],
    });
    assert.deepEqual(intervals(drained, endpointsOf(behind('a', [endpoint('10.0.0.1')]), behind('b', [endpoint('10.0.0.2')]))), [
      null,
      null,
    ]);
  });

  test('HTTP/2 by appProtocol in the clear, by ALPN when encrypted again', () => {
    const over = (appProtocol: string | null, changed: Partial<AdmittedRoute> = {}, configured: Partial<RouterConfiguration> = {}) =>
      serversOf(route('a', changed), endpointsOf(behind('a', [endpoint('10.0.0.1')], [{ ...webPort, appProtocol }])), configured)[0]?.http2;
    assert.deepEqual(
      ['h2c', 'kubernetes.io/h2c', 'http', null].map((protocol) => over(protocol)),
      [true, true, false, false],
    );
    assert.equal(over(null, { termination: 'reencrypt' }), true);
    assert.equal(over(null, { termination: 'reencrypt' }, { options: options({ disableHttp2: true }) }), false);
  });

  test('pods of a reencrypt route are verified by its CA, or the default one and the service’s name', () => {
    const tls = (changed: Partial<AdmittedRoute>, configured: Partial<RouterConfiguration> = {}) =>
      serversOf(route('a', changed), two, configured)[0]?.tls;
    const reencrypt = { termination: 'reencrypt' } as const;
    assert.equal(tls({}), null);
    assert.deepEqual(tls({ ...reencrypt, destinationCA: 'certificates/ca-1.pem' }, { defaultDestinationCA: 'certificates/ca-2.pem' }), {
      caFile: 'certificates/ca-1.pem',
      verifyHost: null,
    });
    assert.deepEqual(tls(reencrypt, { defaultDestinationCA: 'certificates/ca-2.pem' }), {
      caFile: 'certificates/ca-2.pem',
      verifyHost: 'a.ns.svc',
    });
    assert.deepEqual(tls(reencrypt), { caFile: null, verifyHost: null });
  });

  test('names are HAProxy’s characters only and unique, ids unique and theirs for good, whatever pods are called', () => {
    const hostileName = fc.string({ unit: fc.constantFrom('a', ':', ' ', '\n', '"', '/', '1', '.', 'é'), minLength: 1 });
    const pods = fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 65_000 }), fc.option(hostileName)), {
      selector: ([number]) => number,
      maxLength: 40,
    });
    fc.assert(
      fc.property(pods, hostileName, (chosen, portName) => {
        const endpoints = chosen.map(([number, pod]) => endpoint(`10.0.${number >> 8}.${number & 255}`, { pod }));
        const servers = serversOf(route('a'), endpointsOf(behind('a', endpoints, [{ ...webPort, name: portName }])));
        assert.equal(servers.length, chosen.length);
        assert.ok(servers.every(({ name }) => /^[A-Za-z0-9_.:-]+$/.test(name)));
        assert.equal(new Set(servers.map(({ name }) => name)).size, servers.length);
        assert.equal(new Set(servers.map(({ id }) => id)).size, servers.length);
        assert.ok(servers.every(({ id }) => Number.isInteger(id) && id >= 1 && id <= 2 ** 31 - 1));
        const [first] = endpoints;
        if (first === undefined) return;
        const alone = serversOf(route('a'), endpointsOf(behind('a', [first], [{ ...webPort, name: portName }])))[0];
        assert.equal(servers.find(({ name }) => name === alone?.name)?.id, alone?.id);
      }),
      { numRuns: cases(50, 1_000) },
    );
  });
});
