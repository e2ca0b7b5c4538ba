// Small backends that stand for pods: one for each address and port behind a service of the watched cluster. Each answers every request
// with its name, so that one sees who answered; a port that speaks TLS shows the certificate of the Secret that its Service names.

import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttps } from 'node:https';
import type { ClusterState, Secret, Service } from '../../functions/cluster/objects.ts';
import type { ServiceEndpoints } from '../../shared/endpoint.ts';
import { errorMessage } from '../../shared/error.ts';
import type { Logger } from '../../shared/logger.ts';

/** The Service's annotation that names the Secret with its pods' certificate, as OpenShift has it. */
const SERVING_CERTIFICATE = 'service.beta.openshift.io/serving-cert-secret-name';

/** More than any sample needs; a whole cluster's folder must not start thousands of servers. */
const MOST_PODS = 256;

export interface Pod {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | null;
}

/** The pods of a cluster: every TCP address and port behind its services, once. */
export function podsOf(cluster: ClusterState): Pod[] {
  const services = new Map(cluster.services.map((service) => [`${service.meta.namespace}/${service.meta.name}`, service]));
  const secrets = new Map(cluster.secrets.map((secret) => [`${secret.namespace}/${secret.name}`, secret]));
  const pods = new Map<string, Pod>();
  for (const [key, endpoints] of cluster.endpoints) {
    for (const pod of podsBehind(endpoints, services.get(key), secrets)) {
      const at = podKey(pod);
      if (pod.tls !== null || !pods.has(at)) pods.set(at, pod);
    }
  }
  return [...pods.values()].slice(0, MOST_PODS);
}

function podsBehind(behind: ServiceEndpoints, service: Service | undefined, secrets: ReadonlyMap<string, Secret>): Pod[] {
  const secret = secrets.get(`${behind.namespace}/${service?.meta.annotations[SERVING_CERTIFICATE] ?? ''}`);
  const cert = secret?.data.get('tls.crt');
  const key = secret?.data.get('tls.key');
  const tls = cert === undefined || key === undefined ? null : { cert: Buffer.from(cert), key: Buffer.from(key) };
  return behind.subsets.flatMap((subset) =>
    subset.ports
      .filter((port) => port.protocol === 'TCP')
      .flatMap((port) =>
        subset.endpoints.map((endpoint) => ({ name: endpoint.pod ?? endpoint.address, address: endpoint.address, port: port.port, tls })),
      ),
  );
}

function podKey(pod: Pod): string {
  return `${pod.address} ${pod.port}`;
}

/** Runs pods and follows the cluster: `show` starts those that are new and stops those that are gone. */
export class Pods {
  readonly #running = new Map<string, { readonly server: Server; readonly pod: Pod }>();
  readonly #addAddress: (address: string) => Promise<void>;
  readonly #logger: Logger;

  /** @param addAddress makes an address this machine's before something listens on it */
  constructor(addAddress: (address: string) => Promise<void>, logger: Logger) {
    this.#addAddress = addAddress;
    this.#logger = logger;
  }

  async show(pods: readonly Pod[]): Promise<void> {
    const wanted = new Map(pods.map((pod) => [podKey(pod), pod]));
    for (const [key, running] of this.#running) {
      const next = wanted.get(key);
      if (next !== undefined && samePod(next, running.pod)) continue;
      this.#running.delete(key);
      await stop(running.server);
    }
    for (const [key, pod] of wanted) {
      if (this.#running.has(key)) continue;
      try {
        await this.#addAddress(pod.address);
        this.#running.set(key, { server: await start(pod), pod });
      } catch (error) {
        this.#logger.warn({ pod: pod.name, address: pod.address, port: pod.port, reason: errorMessage(error) }, 'pod cannot listen');
      }
    }
  }

  async close(): Promise<void> {
    await this.show([]);
  }
}

function samePod(a: Pod, b: Pod): boolean {
  return a.name === b.name && (a.tls === null ? b.tls === null : b.tls !== null && a.tls.cert.equals(b.tls.cert));
}

async function start(pod: Pod): Promise<Server> {
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    response.setHeader('content-type', 'text/plain; charset=utf-8');
    const host = request.headers.host ?? '';
    response.end(`${pod.name} at ${pod.address}:${pod.port} answered ${request.method ?? ''} ${host}${request.url ?? ''}\n`);
  };
  const server = pod.tls === null ? createHttp(answer) : createHttps(pod.tls, answer);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: pod.address, port: pod.port }, resolve);
  });
  return server;
}

async function stop(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
