// The functions over HTTP, without any server: one request in, one response out. Every platform converts to and from this;
// what is served is the list of endpoints that it is given (see http/).

import { errorMessage } from '../shared/error.ts';
import { canonicalJson } from '../shared/json.ts';
import type { Logger } from '../shared/logger.ts';
import { PROBLEM_TYPE, type Problem, problemOf, problemText } from './problem.ts';

export interface HttpRequest {
  /** Upper case. */
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly rawBody: Uint8Array;
  /** The address that the request came from; null where a platform does not tell. */
  readonly peer: string | null;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** A request that matched an endpoint. */
export interface Call {
  readonly request: HttpRequest;
  /** What the groups of the endpoint's path matched. */
  readonly params: readonly string[];
  readonly query: URLSearchParams;
}

/** `open`: anybody. `node`: whoever has a node token. `operator`: see http/access.ts. */
export type Access = 'open' | 'node' | 'operator';

export interface Endpoint {
  readonly method: 'GET' | 'POST';
  readonly path: RegExp;
  readonly access: Access;
  /** A problem is answered as such; errors become one. */
  answer(call: Call): Promise<HttpResponse | Problem>;
}

/** Why a request may not have what it asks for; null when it may. */
export type AccessCheck = (access: Access, request: HttpRequest) => Promise<Problem | null>;

export type Handle = (request: HttpRequest) => Promise<HttpResponse>;

/** Never throws: what goes wrong is answered as application/problem+json. */
export function httpHandler(endpoints: readonly Endpoint[], check: AccessCheck, logger: Logger): Handle {
  return async (request) => {
    try {
      const answered = await answer(endpoints, check, request);
      return 'code' in answered ? problemResponse(answered) : answered;
    } catch (thrown) {
      const problem = problemOf(thrown);
      const level = problem.status >= 500 ? 'error' : 'info';
      logger[level]({ method: request.method, path: pathOf(request), error: errorMessage(thrown) }, 'a request failed');
      return problemResponse(problem);
    }
  };
}

export function problemResponse(problem: Problem, headers: Readonly<Record<string, string>> = {}): HttpResponse {
  const challenge: Record<string, string> = problem.status === 401 ? { 'www-authenticate': 'Bearer' } : {};
  return { status: problem.status, headers: { 'content-type': PROBLEM_TYPE, ...challenge, ...headers }, body: problemText(problem) };
}

export function jsonResponse(value: unknown, status = 200): HttpResponse {
  return { status, headers: { 'content-type': 'application/json' }, body: `${canonicalJson(value)}\n` };
}

export function textResponse(status: number, body: string, type = 'text/plain; charset=utf-8'): HttpResponse {
  return { status, headers: { 'content-type': type }, body };
}

/** The body as JSON; undefined when it is none. */
export function jsonBody(request: HttpRequest): unknown {
  try {
    return JSON.parse(Buffer.from(request.rawBody).toString('utf8'));
  } catch {
    return undefined;
  }
}

async function answer(endpoints: readonly Endpoint[], check: AccessCheck, request: HttpRequest): Promise<HttpResponse | Problem> {
  const path = pathOf(request);
  const onPath = endpoints.filter((endpoint) => endpoint.path.test(path));
  const endpoint = onPath.find(({ method }) => method === request.method);
  if (onPath.length === 0) return { status: 404, code: 'no-such-path', detail: 'nothing is served under this path' };
  if (endpoint === undefined) {
    const allow = onPath.map(({ method }) => method).join(', ');
    return problemResponse({ status: 405, code: 'wrong-method', detail: `this path answers ${allow}` }, { allow });
  }
  const refused = await check(endpoint.access, request);
  if (refused !== null) return refused;
  const params = endpoint.path.exec(path)?.slice(1) ?? [];
  return endpoint.answer({ request, params, query: new URLSearchParams(request.path.slice(path.length + 1)) });
}

function pathOf(request: HttpRequest): string {
  return request.path.split('?', 1)[0] ?? '';
}
