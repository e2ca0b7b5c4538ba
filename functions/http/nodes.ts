// The stream's work by polling, for nodes without WebSockets: the head, its blobs, and reports.

import { reportSchema } from '../../shared/protocol.ts';
import type { VersionStore } from '../../shared/version-store.ts';
import type { HeadSource, Offering } from '../head-source.ts';
import { type Endpoint, type HttpResponse, jsonBody } from '../http.ts';
import type { Problem } from '../problem.ts';
import type { StreamReports } from '../stream.ts';

export interface NodeEndpointOptions {
  readonly store: Pick<VersionStore, 'readBlob'>;
  readonly source: HeadSource;
  readonly reports: StreamReports;
}

const NO_HEAD: Problem = { status: 404, code: 'no-head', detail: 'nothing has been published yet' };
const NO_BLOB: Problem = { status: 404, code: 'no-such-blob', detail: 'the head names no such blob; read the head again' };

export function nodeEndpoints({ store, source, reports }: NodeEndpointOptions): Endpoint[] {
  return [
    {
      method: 'GET',
      path: /^\/head$/,
      access: 'node',
      answer: async ({ request }) => headResponse(source.current, request.headers['if-none-match']),
    },
    {
      method: 'GET',
      path: /^\/blobs\/(\d{1,15})\/([0-9a-f]{64})$/,
      access: 'node',
      answer: async ({ params: [generation = '', digest = ''] }) => {
        const entry = { digest, generation: Number(generation) };
        if (source.current === null || !isOffered(source.current, digest, entry.generation)) return NO_BLOB;
        const stored = await store.readBlob(entry);
        if (stored === null) return NO_BLOB;
        return { status: 200, headers: { 'content-type': 'application/gzip', 'cache-control': 'private, immutable' }, body: stored };
      },
    },
    {
      method: 'POST',
      path: /^\/report$/,
      access: 'node',
      answer: async ({ request }) => {
        const report = reportSchema.safeParse(jsonBody(request));
        if (!report.success) return { status: 400, code: 'bad-report', detail: 'expected {hello, results} as the stream has them' };
        const { hello, results } = report.data;
        reports.connected(hello);
        for (const result of results) reports.result(hello.node, result);
        return { status: 204, headers: {}, body: '' };
      },
    },
  ];
}

function headResponse(current: Offering | null, known: string | undefined): HttpResponse | Problem {
  if (current === null) return NO_HEAD;
  const { sequence } = current.revision.head;
  const headers = { 'content-type': 'application/json', etag: `"${sequence}-${current.revision.head.writer}"` };
  if (known === headers.etag) return { status: 304, headers, body: '' };
  return { status: 200, headers, body: current.revision.text };
}

/** The manifest, and the files of the roles: what is for people stays. */
function isOffered({ revision, blobs }: Offering, digest: string, generation: number): boolean {
  const { manifest, generation: written } = revision.head.target;
  if (digest === manifest) return generation === written;
  return blobs.router.get(digest) === generation || blobs['service-proxy'].get(digest) === generation;
}
