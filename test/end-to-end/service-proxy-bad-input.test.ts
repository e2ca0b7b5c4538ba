// Manifests in which much is wrong: what is wrong is left out alone and reported, and packets find all the rest. From YAML to the node.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterState } from '../../functions/cluster/cluster-state.ts';
import { readManifests } from '../../functions/cluster/manifests.ts';
import { addressPort } from '../../shared/iptables/addresses.ts';
import { type Addresses, onNodes, REFUSED, SILENCE, TIMEOUT } from './service-network.ts';

/** An address that is written loosely, of the same meaning. */
function loosely(address: string): string {
  return address.includes(':') ? address.toUpperCase().replace('::', ':0:0::') : address.replace(/\.(\d+)$/, '.0$1');
}

function manifests(at: Addresses): string {
  const foreign = at.family === 'IPv4' ? 'fd00:198::80' : '198.51.100.80';
  const foreignRange = at.family === 'IPv4' ? 'fd00::/8' : '10.0.0.0/8';
  const lastly = (n: number): string => (at.family === 'IPv4' ? `172.30.0.${n}` : `fd00:30::${n}`);
  const service = (name: string, created: string, spec: string, status = ''): string => `
apiVersion: v1
kind: Service
metadata: {namespace: ns, name: ${name}, creationTimestamp: "${created}"}
spec: {ports: [{name: p, port: 80, targetPort: 80}], ${spec}}
${status === '' ? '' : `status: {loadBalancer: {ingress: [${status}]}}`}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: ns, name: ${name}-1, labels: {kubernetes.io/service-name: ${name}}}
addressType: ${at.family}
ports: [{name: p, port: 80, protocol: TCP}]
endpoints:
- {addresses: ["${at.near}"], nodeName: n1, conditions: {}}
- {addresses: ["${at.near}"], nodeName: n1}
- {addresses: ["${at.family === 'IPv4' ? '169.254.169.254' : 'fd00:ec2::254'}"], nodeName: n1}
- {addresses: ["${at.family === 'IPv4' ? '127.0.0.1' : '::1'}"], nodeName: n1}
---`;
  return `
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {podCIDRs: ["${at.podRange}", "everywhere", ""]}
status: {addresses: [{type: InternalIP, address: "${at.node}"}, {type: InternalIP, address: "nowhere"}]}
---
${service('loose', '2020-01-01T00:00:00Z', `clusterIPs: ["${loosely(at.web)}"], externalIPs: ["x", "${foreign}", "${at.external}", "-j ACCEPT"]`)}
${service('younger', '2021-01-01T00:00:00Z', `clusterIP: "${lastly(51)}", deprecatedPublicIPs: ["${at.external}", " ${at.zero} "]`)}
${service(
  'ranges',
  '2020-01-01T00:00:00Z',
  `type: LoadBalancer, clusterIP: "${at.other}", loadBalancerSourceRanges: [" ${at.clientRange} ", "anybody", "${foreignRange}"]`,
  `{ip: "${at.balancer}"}, {ip: "1.2.3"}, {ip: "${lastly(99)}", ipMode: Proxy}, {hostname: lb.example}`,
)}
${service('sticky', '2020-01-01T00:00:00Z', `clusterIP: "${lastly(52)}", sessionAffinity: Always, internalTrafficPolicy: Sometimes`)}
${service('wrong-type', '2020-01-01T00:00:00Z', `clusterIP: "${lastly(53)}", externalIPs: "${at.external}"`)}
${service('no-address', '2020-01-01T00:00:00Z', `clusterIP: "here", externalIPs: ["127.0.0.1"]`)}
${service('headless', '2020-01-01T00:00:00Z', `clusterIP: None, externalIPs: ["${at.external}"]`)}
`;
}

onNodes('bad input', (network, at) => {
  test('what is wrong is left out alone and reported, the rest is served', async () => {
    const cluster = clusterState(readManifests(manifests(at), 'cluster.yaml'));
    const reported = [...cluster.rejections, ...(await network().run(cluster, { clusterCIDRs: null }))];
    const lines = [...new Set(reported.map(({ kind, name, field, reason }) => `${kind} ${name} ${field} ${reason}`))].sort();
    const refusedPods = ['loose', 'no-address', 'ranges', 'sticky', 'younger'].map(
      (name) => `Service ${name} endpoints EndpointAddressNotAllowed`,
    );
    assert.deepEqual(
      lines,
      [
        ...refusedPods,
        'Node n1 spec.podCIDRs InvalidCIDR',
        'Node n1 status.addresses InvalidAddress',
        'Service loose spec.externalIPs InvalidAddress',
        'Service loose spec.externalIPs WrongFamily',
        'Service no-address spec.clusterIPs InvalidAddress',
        'Service no-address spec.externalIPs InvalidAddress',
        'Service ranges spec.loadBalancerSourceRanges InvalidCIDR',
        'Service ranges spec.loadBalancerSourceRanges WrongFamily',
        'Service ranges status.loadBalancer InvalidAddress',
        'Service sticky spec.internalTrafficPolicy InvalidTrafficPolicy',
        'Service sticky spec.sessionAffinity InvalidAffinity',
        'Service wrong-type spec.externalIPs WrongType',
        'Service younger spec.externalIPs AddressAlreadyClaimed',
      ].sort(),
    );

    const server = addressPort(at.near, 80);
    assert.deepEqual(
      await network().ask('idle', at.web, 80),
      { server, client: at.idle },
      'a loosely written cluster IP, and a good pod CIDR',
    );
    assert.deepEqual(await network().ask('client', at.external, 80), { server, client: at.node }, 'an external IP among bad ones');
    assert.deepEqual(await network().ask('client', at.zero, 80), { server, client: at.node }, 'a deprecated public IP');
    assert.deepEqual(await network().ask('client', at.other, 80), { server, client: at.node });
    assert.deepEqual(await network().ask('client', at.balancer, 80), { server, client: at.node }, 'a source range among bad ones');
    assert.deepEqual(await network().ask('client', at.balancer, 80, { from: at.stranger, ...SILENCE }), TIMEOUT);
  });

  test('the older of two services has an address, whatever their names; when it goes, the younger one has it', async () => {
    const answers = async (yaml: string): Promise<unknown> => {
      const cluster = clusterState(readManifests(yaml, 'cluster.yaml'));
      await network().run(cluster, { clusterCIDRs: null });
      return network().ask('client', at.external, 80);
    };
    const one = (name: string, created: string, served: boolean): string => `
apiVersion: v1
kind: Service
metadata: {namespace: ns, name: ${name}, creationTimestamp: "${created}"}
spec: {clusterIP: "${name === 'a' ? at.web : at.other}", externalIPs: ["${at.external}"], ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: ns, name: ${name}-1, labels: {kubernetes.io/service-name: ${name}}}
addressType: ${at.family}
ports: [{name: "", port: 80, protocol: TCP}]
endpoints: [${served ? `{addresses: ["${at.near}"]}` : ''}]
---`;
    const served = { server: addressPort(at.near, 80), client: at.client };
    assert.deepEqual(await answers(one('a', '2021-01-01T00:00:00Z', true) + one('b', '2020-01-01T00:00:00Z', false)), REFUSED);
    // Without nodes nothing is known of the pods; external addresses are masqueraded all the same.
    assert.deepEqual(await answers(one('a', '2021-01-01T00:00:00Z', true)), { ...served, client: at.node });
    assert.deepEqual(await answers(one('a', '2020-01-01T00:00:00Z', false) + one('b', '2020-01-01T00:00:00Z', true)), REFUSED);
  });
});
