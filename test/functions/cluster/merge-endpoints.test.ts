import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { mergeEndpoints } from '../../../functions/cluster/merge-endpoints.ts';
import type { ServicePart } from '../../../functions/cluster/project-endpoints.ts';
import type { Endpoint, EndpointPort, EndpointSubset } from '../../../shared/endpoint.ts';
import { canonicalJson } from '../../../shared/json.ts';

const HTTP: EndpointPort = { name: 'http', port: 8080, protocol: 'TCP', appProtocol: null };
const DNS: EndpointPort = { name: 'dns', port: 53, protocol: 'UDP', appProtocol: null };

function endpoint(address: string, fields: Partial<Endpoint> = {}): Endpoint {
  const plain = { ready: true, serving: true, terminating: false, node: null, zone: null, hintZones: [], hintNodes: [], pod: null };
  return { address, ...plain, ...fields };
}

function part(name: string, subsets: readonly EndpointSubset[], service = 'db', namespace = 'data'): ServicePart {
  return { namespace, name, service, subsets };
}

function subset(addresses: readonly string[], ports: readonly EndpointPort[] = [HTTP]): EndpointSubset {
  return { family: 'IPv4', ports, endpoints: addresses.map((address) => endpoint(address)) };
}

const addressesOf = (subsets: readonly EndpointSubset[] | undefined): string[][] =>
  (subsets ?? []).map((one) => one.endpoints.map(({ address }) => address));

test('slices with the same ports are one subset, sorted, each endpoint once', () => {
  const merged = mergeEndpoints([part('db-2', [subset(['10.0.0.3', '10.0.0.1'])]), part('db-1', [subset(['10.0.0.2', '10.0.0.1'])])], []);
  assert.deepEqual([...merged], [['data/db', { namespace: 'data', name: 'db', subsets: [subset(['10.0.0.1', '10.0.0.2', '10.0.0.3'])] }]]);
});

test('the order of ports says nothing; other ports or another family are another subset', () => {
  const six: EndpointSubset = { family: 'IPv6', ports: [HTTP], endpoints: [endpoint('fd00::1')] };
  const merged = mergeEndpoints(
    [
      part('a', [subset(['10.0.0.1'], [HTTP, DNS])]),
      part('b', [subset(['10.0.0.2'], [DNS, HTTP])]),
      part('c', [subset(['10.0.0.3'])]),
      part('d', [six]),
    ],
    [],
  );
  assert.deepEqual(new Set(addressesOf(merged.get('data/db')?.subsets).map(String)), new Set(['10.0.0.1,10.0.0.2', '10.0.0.3', 'fd00::1']));
});

test('one address with two states stays twice, in one order', () => {
  const ready = part('a', [{ ...subset([]), endpoints: [endpoint('10.0.0.1')] }]);
  const gone = part('b', [{ ...subset([]), endpoints: [endpoint('10.0.0.1', { ready: false, terminating: true })] }]);
  const merged = mergeEndpoints([ready, gone], []);
  assert.equal(merged.get('data/db')?.subsets[0]?.endpoints.length, 2);
  assert.deepEqual(merged, mergeEndpoints([gone, ready], []));
});

test('a service without endpoints is absent', () => {
  assert.equal(mergeEndpoints([part('a', [subset([])]), part('b', [])], []).size, 0);
  assert.equal(mergeEndpoints([part('a', [subset(['10.0.0.1'], [])])], []).size, 0);
});

test('Endpoints objects count only for a service without slices, even when its slices hold nothing', () => {
  const older = [part('db', [subset(['10.9.0.1'])]), part('web', [subset(['10.9.0.2'])], 'web')];
  assert.deepEqual([...mergeEndpoints([part('db-1', [])], older).keys()], ['data/web']);
  assert.deepEqual([...mergeEndpoints([], older).keys()], ['data/db', 'data/web']);
  const merged = mergeEndpoints([part('db-1', [subset(['10.0.0.1'])])], older);
  assert.deepEqual(addressesOf(merged.get('data/db')?.subsets), [['10.0.0.1']]);
});

test('services stand by namespace, then name', () => {
  const services = [
    ['a-b', 'x'],
    ['a', 'z'],
    ['a', 'y.z'],
    ['a', 'y'],
  ] as const;
  const merged = mergeEndpoints(
    services.map(([namespace, name]) => part('p', [subset(['10.0.0.1'])], name, namespace)),
    [],
  );
  assert.deepEqual([...merged.keys()], ['a/y', 'a/y.z', 'a/z', 'a-b/x']);
});

test('how endpoints are spread over slices, and in which order, leaves no trace', () => {
  const anyEndpoint = fc
    .record({ last: fc.integer({ min: 1, max: 9 }), ready: fc.boolean(), node: fc.constantFrom(null, 'n1', 'n2') })
    .map(({ last, ready, node }) => endpoint(`10.0.0.${last}`, { ready, node }));
  const spread = fc.array(fc.tuple(anyEndpoint, fc.nat(2), fc.constantFrom<EndpointPort[]>([HTTP], [DNS], [HTTP, DNS], [DNS, HTTP])), {
    maxLength: 12,
  });
  const slicesOf = (entries: readonly (readonly [Endpoint, number, EndpointPort[]])[], slices: number): ServicePart[] =>
    entries.map(([one, at, ports]) => part(`s-${at % slices}`, [{ family: 'IPv4', ports, endpoints: [one] }]));
  fc.assert(
    fc.property(spread, fc.infiniteStream(fc.nat()), (entries, random) => {
      const shuffled = entries.map((entry) => ({ entry, at: Number(random.next().value) })).sort((a, b) => a.at - b.at);
      const one = mergeEndpoints(slicesOf(entries, 1), []);
      const other = mergeEndpoints(slicesOf([...shuffled.map(({ entry }) => entry), ...entries.slice(0, 2)], 3), []);
      assert.equal(canonicalJson([...other]), canonicalJson([...one]));
    }),
  );
});
