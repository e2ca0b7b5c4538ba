// What wakes Headgate over HTTP: admission webhooks, CloudEvents, cron jobs, or any POST. A trigger says only that something
// changed. It needs no token: all that it can cause is a look at the cluster, and looks are rare however many ask.

import { z } from 'zod';
import { type Endpoint, type HttpRequest, type HttpResponse, jsonBody, jsonResponse } from '../http.ts';
import type { Problem } from '../problem.ts';
import type { Triggers } from '../triggers.ts';

/** An AdmissionReview is answered before the object is stored: milliseconds until it has been. */
const STORED_MS = 2_000;

const reviewSchema = z.object({
  apiVersion: z.string().max(64),
  kind: z.literal('AdmissionReview'),
  request: z.object({ uid: z.string().min(1).max(256), dryRun: z.boolean().nullish() }),
});

type HttpTriggers = Pick<Triggers, 'mark' | 'reconcile'>;

export function triggerEndpoints(triggers: HttpTriggers): Endpoint[] {
  return [
    { method: 'POST', path: /^\/reconcile$/, access: 'open', answer: ({ request }) => answerTrigger(request, triggers) },
    { method: 'POST', path: /^\/admit$/, access: 'open', answer: ({ request }) => answerAdmit(request, triggers) },
  ];
}

async function answerTrigger(request: HttpRequest, triggers: HttpTriggers): Promise<HttpResponse | Problem> {
  if (isAdmissionReview(request)) return answerAdmit(request, triggers);
  const cloudEvent = isCloudEvent(request);
  const published = await triggers.reconcile(cloudEvent ? 'cloud-event' : 'http');
  // The sender of an event would take a body for an event in reply.
  if (cloudEvent) return { status: published === null ? 202 : 204, headers: {}, body: '' };
  return published === null ? jsonResponse({ accepted: true }, 202) : jsonResponse(published);
}

async function answerAdmit(request: HttpRequest, triggers: HttpTriggers): Promise<HttpResponse | Problem> {
  const review = reviewSchema.safeParse(jsonBody(request));
  if (!review.success)
    return { status: 400, code: 'bad-admission-review', detail: 'expected an AdmissionReview with a request and its uid' };
  const { apiVersion, kind, request: asked } = review.data;
  if (asked.dryRun !== true) await triggers.mark(STORED_MS);
  return jsonResponse({ apiVersion, kind, response: { uid: asked.uid, allowed: true } });
}

function isAdmissionReview(request: HttpRequest): boolean {
  const body = jsonBody(request);
  return typeof body === 'object' && body !== null && 'kind' in body && body.kind === 'AdmissionReview';
}

/** Binary mode has `ce-` headers, structured mode its own content type. */
function isCloudEvent({ headers }: HttpRequest): boolean {
  return headers['ce-type'] !== undefined || (headers['content-type'] ?? '').startsWith('application/cloudevents');
}
