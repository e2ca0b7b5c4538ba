// What operators ask for over HTTP: versions, their differences, rolling back and resuming, and which node runs what.

import { z } from 'zod';
import { RECONCILER } from '../../shared/head.ts';
import { type Endpoint, jsonBody, jsonResponse } from '../http.ts';
import type { Problem } from '../problem.ts';

const authorSchema = z
  .string()
  .min(1)
  .max(128)
  .refine((author) => author !== RECONCILER, 'this author is ours')
  .default('operator');

const rollbackSchema = z.strictObject({
  version: z.number().int().positive(),
  reason: z.string().min(1).max(1024),
  roles: z
    .array(z.enum(['router', 'service-proxy']))
    .min(1)
    .optional(),
  freeze: z.boolean().default(false),
  author: authorSchema,
});
export type RollbackRequest = z.output<typeof rollbackSchema>;

const resumeSchema = z.strictObject({ reason: z.string().max(1024).default(''), author: authorSchema });
export type ResumeRequest = z.output<typeof resumeSchema>;

/** How the endpoints reach the work; what it returns is answered as JSON. */
export interface Operations {
  versions(): Promise<unknown>;
  version(number: number): Promise<unknown>;
  diff(from: number, to: number): Promise<unknown>;
  rollback(request: RollbackRequest): Promise<unknown>;
  resume(request: ResumeRequest): Promise<unknown>;
  fleet(): Promise<unknown>;
}

export function operatorEndpoints(operations: Operations): Endpoint[] {
  const operator = (method: 'GET' | 'POST', path: RegExp, answer: Endpoint['answer']): Endpoint => ({
    method,
    path,
    access: 'operator',
    answer,
  });
  return [
    operator('GET', /^\/versions$/, async () => jsonResponse(await operations.versions())),
    operator('GET', /^\/versions\/([1-9]\d{0,14})$/, async ({ params: [number] }) =>
      jsonResponse(await operations.version(Number(number))),
    ),
    operator('GET', /^\/fleet$/, async () => jsonResponse(await operations.fleet())),
    operator('GET', /^\/diff$/, async ({ query }) => {
      const [from, to] = [query.get('from') ?? '', query.get('to') ?? ''];
      if (![from, to].every((number) => /^[1-9]\d{0,14}$/.test(number))) return badRequest('expected /diff?from=VERSION&to=VERSION');
      return jsonResponse(await operations.diff(Number(from), Number(to)));
    }),
    operator('POST', /^\/rollback$/, async ({ request }) => {
      const asked = rollbackSchema.safeParse(jsonBody(request));
      if (!asked.success) return badRequest(`expected {version, reason, roles?, freeze?}: ${problems(asked.error)}`);
      return jsonResponse(await operations.rollback(asked.data));
    }),
    operator('POST', /^\/resume$/, async ({ request }) => {
      const asked = resumeSchema.safeParse(request.rawBody.length === 0 ? {} : jsonBody(request));
      if (!asked.success) return badRequest(`expected {reason?}: ${problems(asked.error)}`);
      return jsonResponse(await operations.resume(asked.data));
    }),
  ];
}

function badRequest(detail: string): Problem {
  return { status: 400, code: 'bad-request', detail };
}

function problems(error: z.ZodError): string {
  return error.issues.map((issue) => `${issue.path.join('.') || 'the body'}: ${issue.message}`).join('; ');
}
