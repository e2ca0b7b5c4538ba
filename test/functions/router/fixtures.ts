// Small router configurations and endpoints for tests, made from the types.

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Endpoint, EndpointPort, Endpoints, ServiceEndpoints } from '../../../shared/endpoint.ts';
import { composeRouter } from '../../../shared/router/compose.ts';
import type { Files } from '../../../shared/files.ts';
import { buildRouter } from '../../../functions/router/build.ts';
import type { AdmittedRoute, RoutedService, RouterConfiguration, RouteSettings } from '../../../functions/router/configuration.ts';
import { parseOptions, type RouterOptions } from '../../../functions/options.ts';
import { renderRouter } from '../../../functions/router/render.ts';

const run = promisify(execFile);

export function options(changed: Partial<RouterOptions> = {}): RouterOptions {
  const { defaultCertificate: _, defaultDestinationCA: __, stats: ___, templates: ____, ...rest } = parseOptions({}, 'test').router;
  return { ...rest, statsUser: null, templates: {}, ...changed };
}

export const noSettings: RouteSettings = {
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
};

/** An http route of namespace `ns` to the service of its own name, with the fields given. */
export function route(
  name: string,
  changed: Partial<Omit<AdmittedRoute, 'settings'>> & { readonly settings?: Partial<RouteSettings> } = {},
): AdmittedRoute {
  const host = changed.host ?? `${name}.example.com`;
  return {
    namespace: 'ns',
    name,
    termination: 'http',
    insecure: 'none',
    host,
    displayHost: host,
    path: '',
    wildcard: false,
    services: [{ name, weight: 1 }],
    targetPort: null,
    certificate: null,
    destinationCA: null,
    ...changed,
    settings: { ...noSettings, ...changed.settings },
  };
}

/** A configuration with these routes; every service that they name exists and has one port. */
export function configuration(routes: readonly AdmittedRoute[], changed: Partial<RouterConfiguration> = {}): RouterConfiguration {
  const services = new Map<string, RoutedService>();
  for (const { namespace, services: named } of routes) {
    for (const { name } of named) {
      services.set(`${namespace}/${name}`, {
        namespace,
        name,
        idledClusterIP: null,
        ports: [{ name: 'web', port: 80, targetPort: 8080, appProtocol: null }],
      });
    }
  }
  return {
    options: options(),
    defaultCertificate: { path: 'certificates/default.pem', fingerprint: 'd'.repeat(64) },
    defaultDestinationCA: null,
    routes,
    services: [...services.values()],
    rejections: [],
    ...changed,
  };
}

export function endpoint(address: string, changed: Partial<Endpoint> = {}): Endpoint {
  return {
    address,
    ready: true,
    serving: true,
    terminating: false,
    node: null,
    zone: null,
    hintZones: [],
    hintNodes: [],
    pod: `pod-${address.replaceAll(/[.:]/g, '-')}`,
    ...changed,
  };
}

export const webPort: EndpointPort = { name: 'web', port: 8080, protocol: 'TCP', appProtocol: null };

/** One subset behind `ns/<service>`. */
export function behind(service: string, endpoints: readonly Endpoint[], ports: readonly EndpointPort[] = [webPort]): ServiceEndpoints {
  return { namespace: 'ns', name: service, subsets: [{ family: 'IPv4', ports, endpoints }] };
}

export function endpointsOf(...services: readonly ServiceEndpoints[]): Endpoints {
  return new Map(services.map((service) => [`${service.namespace}/${service.name}`, service]));
}

/** What a node runs for it, certificates and secrets left out. */
export function composed(
  configured: RouterConfiguration,
  endpoints: Endpoints = new Map(),
  secrets: Files = new Map(),
): Map<string, string | Uint8Array> {
  return composeRouter(new Map([...renderRouter(buildRouter(configured, endpoints)), ...secrets]));
}

/** The text of a composed file. */
export function text(files: Files, path: string): string {
  const content = files.get(path);
  if (content === undefined) throw new Error(`${path} is not among ${[...files.keys()].join(' ')}`);
  return typeof content === 'string' ? content : Buffer.from(content).toString('utf8');
}

/** The stanza of a backend. */
export function stanza(files: Files, backend: string): string {
  const all = [...files.keys()]
    .filter((path) => path.startsWith('router/config/backends-'))
    .map((path) => text(files, path))
    .join('');
  const found = all.split(/^(?=backend )/m).find((part) => part.startsWith(`backend ${backend}\n`));
  if (found === undefined) throw new Error(`no backend ${backend}`);
  return found;
}

/** A self-signed certificate and its key in one PEM text. */
export async function selfSigned(...hosts: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `hg-pem-${process.pid}-`));
  try {
    const names = hosts.map((host) => `DNS:${host}`).join(',');
    const [key, certificate] = [join(folder, 'key'), join(folder, 'crt')];
    const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30'];
    await run('openssl', ['req', ...kind, '-subj', '/CN=test', '-addext', `subjectAltName=${names}`, '-keyout', key, '-out', certificate]);
    return (await readFile(certificate, 'utf8')) + (await readFile(key, 'utf8'));
  } finally {
    await rm(folder, { recursive: true });
  }
}
