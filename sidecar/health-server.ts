// The sidecar's own small HTTP server: /healthz, /readyz, /metrics.

import { createServer, type ServerResponse } from 'node:http';
import { type Listen, listenOn } from '../shared/listen.ts';
import { PROMETHEUS_TYPE } from '../shared/prometheus.ts';

export interface HealthServer {
  /** The port listened on: the kernel's choice when 0 was asked for. */
  readonly port: number;
  close(): Promise<void>;
}

export interface Health {
  /** What keeps the node from being ready, one reason each; none: it is. */
  readonly unready: () => Promise<readonly string[]>;
  readonly metrics: () => string;
}

/** @throws HeadgateError `port-in-use` or `bad-listen` (stage `serve`) */
export async function serveHealth(listen: Listen, health: Health): Promise<HealthServer> {
  const server = createServer((request, response) => {
    answer(request.url ?? '', response, health).catch(() => response.destroy());
  });
  return {
    port: await listenOn(server, listen),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(url: string, response: ServerResponse, health: Health): Promise<void> {
  const path = url.split('?')[0];
  if (path === '/healthz') return send(response, 200, 'text/plain', 'ok\n');
  if (path === '/metrics') return send(response, 200, PROMETHEUS_TYPE, health.metrics());
  if (path !== '/readyz') return send(response, 404, 'text/plain', 'not found\n');
  const unready = await health.unready();
  if (unready.length === 0) return send(response, 200, 'text/plain', 'ready\n');
  return send(response, 503, 'text/plain', unready.map((reason) => `${reason}\n`).join(''));
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': type }).end(body);
}
