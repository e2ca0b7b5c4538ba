import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { admitServices } from '../../../functions/iptables/admit.ts';
import type { AdmittedService, ProxyConfiguration } from '../../../functions/iptables/configuration.ts';
import type { Service } from '../../../functions/cluster/objects.ts';
import { OPTIONS, service, state, virtualIP } from './cluster.ts';

function admitted(...services: Service[]): ProxyConfiguration {
  return admitServices(state(services), OPTIONS);
}

function only(given: Service): AdmittedService {
  const [first, ...others] = admitted(given).services;
  assert.ok(first !== undefined && others.length === 0);
  return first;
}

/** `name field reason` of each rejection. */
function reasons({ rejections }: ProxyConfiguration): string[] {
  return rejections.map(({ name, field, reason }) => `${name} ${field} ${reason}`);
}

describe('which services are ours', () => {
  const others: Readonly<Record<string, Service>> = {
    headless: service({ clusterIPs: ['None'] }),
    'without a cluster IP': service({ clusterIPs: [] }),
    ExternalName: service({ type: 'ExternalName', clusterIPs: ['172.30.0.1'] }),
    'of another proxy': service({ labels: { 'service.kubernetes.io/service-proxy-name': 'other' } }),
    'of a proxy without a name': service({ labels: { 'service.kubernetes.io/service-proxy-name': '' } }),
  };
  for (const [title, given] of Object.entries(others)) {
    test(`not ${title}, and that is no rejection`, () => {
      assert.deepEqual(admitted(given), { services: [], options: OPTIONS, rejections: [] });
    });
  }
});

describe('addresses', () => {
  test('are written canonically, each once', () => {
    const { ports, families, sourceRanges } = only(
      service({
        clusterIPs: ['172.30.0.041', 'FD00:0:0::1'],
        externalIPs: ['198.051.100.001', '198.51.100.1', 'fd00::00a'],
        loadBalancerIngress: [
          virtualIP('198.51.100.2'),
          virtualIP('198.51.100.3', 'Proxy'),
          { ip: null, hostname: 'lb.example', ipMode: 'VIP' },
        ],
        loadBalancerSourceRanges: [' 10.1.2.3/8 ', 'fd00::1/64\n'],
      }),
    );
    assert.deepEqual(families, ['IPv4', 'IPv6']);
    assert.deepEqual(sourceRanges, ['10.0.0.0/8', 'fd00::/64']);
    assert.deepEqual(ports[0]?.clusterIPs, ['172.30.0.41', 'fd00::1']);
    assert.deepEqual(ports[0]?.externalIPs, ['198.51.100.1', 'fd00::a']);
    assert.deepEqual(ports[0]?.loadBalancerIPs, ['198.51.100.2']);
  });

  test('a bad one is left out alone, and each is reported', () => {
    const given = service({
      externalIPs: ['bad', '198.51.100.1', '127.0.0.1', '169.254.169.254', 'fd00::1'],
      loadBalancerIngress: [virtualIP('0.0.0.0'), virtualIP('198.51.100.2')],
      loadBalancerSourceRanges: ['10.0.0.0/33', 'fd00::/8', '10.0.0.1'],
    });
    const configuration = admitted(given);
    assert.deepEqual(reasons(configuration), [
      'svc1 spec.externalIPs InvalidAddress',
      'svc1 spec.externalIPs InvalidAddress',
      'svc1 spec.externalIPs InvalidAddress',
      'svc1 spec.externalIPs WrongFamily',
      'svc1 spec.loadBalancerSourceRanges InvalidCIDR',
      'svc1 spec.loadBalancerSourceRanges InvalidCIDR',
      'svc1 spec.loadBalancerSourceRanges WrongFamily',
      'svc1 status.loadBalancer InvalidAddress',
    ]);
    const [kept] = configuration.services;
    assert.deepEqual(kept?.ports[0]?.externalIPs, ['198.51.100.1']);
    assert.deepEqual(kept.ports[0].loadBalancerIPs, ['198.51.100.2']);
    assert.deepEqual(kept.sourceRanges, [], 'nobody');
  });

  test('a bad cluster IP does not block the external ones', () => {
    const configuration = admitted(service({ clusterIPs: ['bad'], externalIPs: ['198.51.100.1'] }));
    assert.deepEqual(reasons(configuration), ['svc1 spec.clusterIPs InvalidAddress']);
    assert.deepEqual(configuration.services[0]?.ports[0]?.externalIPs, ['198.51.100.1']);
  });
});

describe('claims', () => {
  const young = service({ name: 'a', created: 200, clusterIPs: ['172.30.0.1'], externalIPs: ['198.51.100.1', '198.51.100.2'] });
  const old = service({ name: 'z', created: 100, clusterIPs: ['172.30.0.2'], loadBalancerIngress: [virtualIP('198.51.100.1')] });
  const held = (configuration: ProxyConfiguration, name: string): AdmittedService['ports'][number] | undefined =>
    configuration.services.find((each) => each.name === name)?.ports[0];

  test('the older service has an address, whatever kind of address it is, in any order', () => {
    for (const order of [
      [young, old],
      [old, young],
    ]) {
      const configuration = admitted(...order);
      assert.deepEqual(held(configuration, 'z')?.loadBalancerIPs, ['198.51.100.1']);
      assert.deepEqual(held(configuration, 'a')?.externalIPs, ['198.51.100.2']);
      assert.deepEqual(reasons(configuration), ['a spec.externalIPs AddressAlreadyClaimed']);
      assert.match(configuration.rejections[0]?.message ?? '', /198\.51\.100\.1 is held by ns1\/z at 80\/TCP/);
    }
  });

  test('of the same age, namespace and name decide', () => {
    const configuration = admitted({ ...old, meta: { ...old.meta, created: 200 } }, young);
    assert.deepEqual(held(configuration, 'a')?.externalIPs, ['198.51.100.1', '198.51.100.2']);
    assert.deepEqual(reasons(configuration), ['z status.loadBalancer AddressAlreadyClaimed']);
  });

  test('ports and protocols are claimed apart', () => {
    const dns = service({
      name: 'dns',
      created: 300,
      clusterIPs: ['172.30.0.3'],
      externalIPs: ['198.51.100.1'],
      ports: [
        { port: 80, protocol: 'UDP' },
        { name: 'x', port: 81 },
      ],
    });
    assert.deepEqual(reasons(admitted(old, dns)), []);
  });

  test('nobody takes another’s cluster IP, however old', () => {
    const thief = service({ name: 'thief', created: 1, clusterIPs: ['172.30.0.9'], externalIPs: ['172.30.0.2'] });
    const configuration = admitted(thief, old);
    assert.deepEqual(held(configuration, 'z')?.clusterIPs, ['172.30.0.2']);
    assert.deepEqual(held(configuration, 'thief')?.externalIPs, []);
    assert.deepEqual(reasons(configuration), ['thief spec.externalIPs AddressAlreadyClaimed']);
  });

  test('an address that is both external and the load balancer’s keeps its source ranges', () => {
    const both = service({
      externalIPs: ['198.51.100.1'],
      loadBalancerIngress: [virtualIP('198.51.100.1')],
      loadBalancerSourceRanges: ['10.0.0.0/8'],
    });
    const configuration = admitted(both);
    assert.deepEqual(configuration.rejections, []);
    assert.deepEqual(held(configuration, 'svc1')?.externalIPs, []);
    assert.deepEqual(held(configuration, 'svc1')?.loadBalancerIPs, ['198.51.100.1']);
  });

  test('node ports belong to one service', () => {
    const first = service({ name: 'b', created: 1, ports: [{ port: 80, nodePort: 30_080 }] });
    const second = service({ name: 'a', created: 2, clusterIPs: ['172.30.0.5'], ports: [{ port: 80, nodePort: 30_080 }] });
    const configuration = admitted(first, second);
    assert.equal(held(configuration, 'b')?.nodePort, 30_080);
    assert.equal(held(configuration, 'a')?.nodePort, 0);
    assert.deepEqual(reasons(configuration), ['a spec.ports NodePortAlreadyClaimed']);
  });
});

describe('the rest of a service', () => {
  test('policies, affinity and the health check port are read', () => {
    const { internalPolicy, externalPolicy, affinitySeconds, healthCheckNodePort } = only(
      service({
        type: 'LoadBalancer',
        internalTrafficPolicy: 'Local',
        externalTrafficPolicy: 'Local',
        sessionAffinity: 'ClientIP',
        affinityTimeout: 60,
        healthCheckNodePort: 32_000,
      }),
    );
    assert.deepEqual([internalPolicy, externalPolicy, affinitySeconds, healthCheckNodePort], ['Local', 'Local', 60, 32_000]);
  });

  test('a health check port counts for load balancers with the local policy only', () => {
    assert.equal(only(service({ type: 'LoadBalancer', healthCheckNodePort: 32_000 })).healthCheckNodePort, 0);
    assert.equal(only(service({ externalTrafficPolicy: 'Local', healthCheckNodePort: 32_000 })).healthCheckNodePort, 0);
  });

  test('what is malformed is replaced by the default and reported', () => {
    const configuration = admitted(
      service({
        internalTrafficPolicy: 'local',
        externalTrafficPolicy: 'Nearby',
        sessionAffinity: 'ClientIP',
        affinityTimeout: 86_401,
        ports: [
          { name: 'a', port: 0 },
          { name: 'b', port: 80, nodePort: 70_000 },
          { name: 'c', port: 81 },
          { name: 'c', port: 82 },
        ],
      }),
    );
    assert.deepEqual(reasons(configuration), [
      'svc1 spec.externalTrafficPolicy InvalidTrafficPolicy',
      'svc1 spec.internalTrafficPolicy InvalidTrafficPolicy',
      'svc1 spec.ports DuplicatePort',
      'svc1 spec.ports InvalidPort',
      'svc1 spec.ports InvalidPort',
      'svc1 spec.sessionAffinityConfig.clientIP.timeoutSeconds InvalidAffinity',
    ]);
    const [kept] = configuration.services;
    assert.deepEqual([kept?.internalPolicy, kept?.externalPolicy, kept?.affinitySeconds], ['Cluster', 'Cluster', 10_800]);
    assert.deepEqual(
      kept?.ports.map(({ name, port }) => [name, port]),
      [['c', 81]],
    );
  });

  test('hostile text stays on one line of a message, and short', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 500 }), (text) => {
        for (const { message } of admitted(service({ externalIPs: [text], sessionAffinity: text, loadBalancerSourceRanges: [text] }))
          .rejections) {
          assert.ok(!message.includes('\n') && message.length < 1_000);
        }
      }),
    );
  });
});
