// Node's HTTP server in front of the pure handler: reads a bounded body, converts, and hands upgrades of /stream over.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorMessage } from '../../shared/error.ts';
import type { Logger } from '../../shared/logger.ts';
import { type Handle, type HttpRequest, type HttpResponse, problemResponse } from '../http.ts';
import { PROBLEM_TYPE, type Problem, problemText, statusTitle } from '../problem.ts';

/** Takes over a socket whose request asked for an upgrade. */
export type Upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void>;

/** Bytes: AdmissionReviews of large objects fit. */
const BODY_LIMIT = 10 * 1024 * 1024;
const REQUEST_MS = 30_000;

const TOO_LARGE: Problem = { status: 413, code: 'body-too-large', detail: `a body may have ${BODY_LIMIT} bytes` };
const NO_UPGRADE: Problem = { status: 404, code: 'no-such-path', detail: 'only /stream speaks WebSocket' };
const NEEDS_UPGRADE: Problem = { status: 426, code: 'upgrade-required', detail: 'this path speaks WebSocket' };

/** A server that is not listening yet. */
export function nodeServer(handle: Handle, upgrade: Upgrade, logger: Logger): Server {
  const server = createServer({ requestTimeout: REQUEST_MS }, (request, response) => {
    serve(request, response, handle).catch((thrown: unknown) => {
      logger.debug({ error: errorMessage(thrown) }, 'a request was cut off');
      response.destroy();
    });
  });
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    if (request.url?.split('?')[0] !== '/stream') return refuseUpgrade(socket, NO_UPGRADE);
    upgrade(request, socket, head).catch((thrown: unknown) => {
      logger.error({ error: errorMessage(thrown) }, 'a stream could not be opened');
      socket.destroy();
    });
  });
  return server;
}

/** Answers an upgrade with a refusal. */
export function refuseUpgrade(socket: Duplex, problem: Problem): void {
  const body = problemText(problem);
  const head = [
    `HTTP/1.1 ${problem.status} ${statusTitle(problem.status)}`,
    `Content-Type: ${PROBLEM_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

async function serve(request: IncomingMessage, response: ServerResponse, handle: Handle): Promise<void> {
  const rawBody = await readBody(request);
  send(response, rawBody === null ? problemResponse(TOO_LARGE, { connection: 'close' }) : await answer(request, rawBody, handle));
}

async function answer(request: IncomingMessage, rawBody: Buffer, handle: Handle): Promise<HttpResponse> {
  const path = request.url ?? '/';
  if (path.split('?')[0] === '/stream') return problemResponse(NEEDS_UPGRADE, { connection: 'Upgrade', upgrade: 'websocket' });
  const method = request.method ?? 'GET';
  return handle({ method, path, headers: headersOf(request), rawBody, peer: request.socket.remoteAddress ?? null });
}

function headersOf(request: IncomingMessage): HttpRequest['headers'] {
  return Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
  );
}

/** Null when it is larger than the limit; what follows is not read. */
async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > BODY_LIMIT) return null;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

function send(response: ServerResponse, { status, headers, body }: HttpResponse): void {
  response.writeHead(status, { ...headers, ...(status === 204 || status === 304 ? {} : { 'content-length': Buffer.byteLength(body) }) });
  response.end(body);
}
