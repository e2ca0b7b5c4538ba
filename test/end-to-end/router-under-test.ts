// A router in front of small servers as pods: real HAProxy on what is rendered of the routes that a test gives.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Server } from 'node:net';
import type { AdmittedRoute } from '../../functions/router/configuration.ts';
import type { EndpointPort } from '../../shared/endpoint.ts';
import { type Answer, type Ask, echo, get } from '../fixtures/clients.ts';
import { freePorts, whileServing } from '../fixtures/run-haproxy.ts';
import { behind, composed, configuration, endpoint, endpointsOf, options, selfSigned } from '../functions/router/fixtures.ts';

export interface RouterUnderTest {
  readonly ports: { readonly http: number; readonly https: number; readonly stats: number };
  /** The files for these routes; `destinationCA` is the default one. */
  filesOf(routes: readonly AdmittedRoute[], destinationCA?: string): Map<string, string | Uint8Array>;
  serving(routes: readonly AdmittedRoute[], work: () => Promise<void>, destinationCA?: string): Promise<void>;
  overHttp(asked: Ask): Promise<Answer>;
  overTls(asked: Ask): Promise<Answer>;
  close(): void;
}

export const STATS_PASSWORD = 'pass "word" $1';

/** The field of a route that leads to one service: `plain`, `other`, `both` of them, `tls`, or `renamed` (`tls` under a name that its certificate lacks). */
export function to(service: string): Pick<AdmittedRoute, 'services'> {
  return { services: [{ name: service, weight: 1 }] };
}

/** `a`: for a.test, b.test, p.test, plain.test. `b`: for b.test. `shared`: for s1.test, s2.test. */
export function certificate(name: 'a' | 'b' | 'shared'): { readonly path: string; readonly fingerprint: string } {
  return { path: `certificates/${name}.pem`, fingerprint: name.padEnd(64, '0') };
}

/** Starts the pods; HAProxy runs while a test is `serving`. */
export async function openRouter(): Promise<RouterUnderTest> {
  const [standard, a, b, shared, pod] = await Promise.all([
    selfSigned('default.test'),
    selfSigned('a.test', 'b.test', 'p.test', 'plain.test'),
    selfSigned('b.test'),
    selfSigned('s1.test', 's2.test'),
    selfSigned('tls.ns.svc', 'p.test'),
  ]);
  const pods = {
    plain: await listen(createServer(echo('plain'))),
    other: await listen(createServer(echo('other'))),
    tls: await listen(createHttpsServer({ cert: pod, key: pod }, echo('tls'))),
  };
  const endpoints = endpointsOf(
    behind('plain', [endpoint('127.0.0.1')], [portOf(pods.plain)]),
    behind('other', [endpoint('127.0.0.1')], [portOf(pods.other)]),
    behind('both', [endpoint('127.0.0.1')], [portOf(pods.plain), { ...portOf(pods.other), name: 'b' }]),
    behind('tls', [endpoint('127.0.0.1')], [portOf(pods.tls)]),
    behind('renamed', [endpoint('127.0.0.1')], [portOf(pods.tls)]),
  );
  const [http = 0, https = 0, stats = 0] = await freePorts(3);
  const common = options({ httpPort: http, httpsPort: https, statsPort: stats, statsUser: 'admin', allowLoopbackEndpoints: true });
  const secrets = new Map([
    ['router/secrets/stats-password', STATS_PASSWORD],
    ['router/certificates/default.pem', standard],
    ['router/certificates/a.pem', a],
    ['router/certificates/b.pem', b],
    ['router/certificates/shared.pem', shared],
    ['router/certificates/ca-pod.pem', pod],
  ]);
  const filesOf: RouterUnderTest['filesOf'] = (routes, destinationCA) =>
    composed(configuration(routes, { options: common, defaultDestinationCA: destinationCA ?? null }), endpoints, secrets);
  return {
    ports: { http, https, stats },
    filesOf,
    serving: (routes, work, destinationCA) => whileServing(filesOf(routes, destinationCA), http, work),
    overHttp: (asked) => get({ ...asked, port: http, tls: false }),
    overTls: (asked) => get({ ...asked, port: https, tls: true }),
    close: () => Object.values(pods).forEach((server) => server.close()),
  };
}

async function listen(server: Server): Promise<Server> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

function portOf(server: Server): EndpointPort {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the pod does not listen');
  return { name: 'web', port: address.port, protocol: 'TCP', appProtocol: null };
}
