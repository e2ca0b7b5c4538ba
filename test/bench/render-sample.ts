// One sample of render.ts, in a process of its own: `render-sample.ts ROUTES`. Half of the routes are edge routes, which share four certificates.

import { Authority } from '../functions/router/openssl.ts';
import { cluster, meta, options, route, service } from '../functions/router/admission-fixtures.ts';
import { behind, endpoint } from '../functions/router/fixtures.ts';
import type { ClusterState, Route } from '../../functions/cluster/objects.ts';
import { admit, compute } from '../../functions/compute.ts';
import type { Endpoints, ServiceEndpoints } from '../../shared/endpoint.ts';
import { roleOfPath } from '../../shared/role.ts';
import { composeRouter } from '../../shared/router/compose.ts';
import { cpuSeconds } from './subject.ts';

const CERTIFICATES = 4;

const count = Number(process.argv[2]);
const authority = new Authority();
const pairs = Array.from({ length: CERTIFICATES }, () => authority.selfSigned('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'));
authority.remove();

const before = clusterOf(count);
const after: ClusterState = { ...before, endpoints: withAnotherPod(before.endpoints) };
const settings = options();

let files = new Map<string, string | Uint8Array>();
const first = cpuSeconds(() => (files = filesOf(before)));
const again = cpuSeconds(() => (files = filesOf(after)));
const ofRouter = new Map([...files].filter(([path]) => roleOfPath(path) === 'router'));
const compose = cpuSeconds(() => composeRouter(ofRouter));
process.stdout.write(JSON.stringify({ first, again, compose }));

function filesOf(state: ClusterState): Map<string, string | Uint8Array> {
  const { configuration, secrets } = admit(state, settings);
  if (configuration.router.rejections.length > 0) throw new Error(`rejected: ${JSON.stringify(configuration.router.rejections[0])}`);
  return new Map([...compute(configuration, state.endpoints, state.nodes).files, ...secrets]);
}

function clusterOf(size: number): ClusterState {
  const numbers = Array.from({ length: size }, (_, index) => index);
  return cluster({
    routes: numbers.map(routeAt),
    services: numbers.map((index) =>
      service({
        meta: { namespace: 'ns', name: `s${index}` },
        clusterIPs: [`172.${16 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`],
      }),
    ),
    endpoints: new Map(numbers.map((index) => [`ns/s${index}`, podsOf(index, 0)])),
  });
}

function routeAt(index: number): Route {
  const { crt, key } = pairs[index % pairs.length] ?? { crt: '', key: '' };
  return route({
    meta: meta({ namespace: 'ns', name: `r${index}`, uid: `u${index}` }),
    host: `r${index}.example.com`,
    to: { kind: 'Service', name: `s${index}`, weight: null },
    tls: index % 2 === 0 ? null : { termination: 'edge', certificate: crt, key },
  });
}

function podsOf(index: number, shift: number): ServiceEndpoints {
  const pods = [0, 1, 2].map((pod) => endpoint(`10.${pod + 1 + shift}.${index >> 8}.${index & 255}`));
  return behind(`s${index}`, pods, [{ name: 'http', port: 8080, protocol: 'TCP', appProtocol: null }]);
}

function withAnotherPod(endpoints: Endpoints): Endpoints {
  return new Map([...endpoints, ['ns/s0', podsOf(0, 100)]]);
}
