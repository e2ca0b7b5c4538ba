// Whether this host works, for people and for what watches it.

import { PROMETHEUS_TYPE } from '../../shared/prometheus.ts';
import { type Endpoint, textResponse } from '../http.ts';

export interface HealthOptions {
  /** What keeps the host from being ready, one reason each. */
  readonly unready: () => readonly string[];
  readonly metrics: () => string;
}

export function healthEndpoints({ unready, metrics }: HealthOptions): Endpoint[] {
  return [
    { method: 'GET', path: /^\/healthz$/, access: 'open', answer: async () => textResponse(200, 'ok\n') },
    {
      method: 'GET',
      path: /^\/readyz$/,
      access: 'open',
      answer: async () => {
        const reasons = unready();
        if (reasons.length === 0) return textResponse(200, 'ready\n');
        return { status: 503, code: 'not-ready', detail: reasons.join('; ') };
      },
    },
    { method: 'GET', path: /^\/metrics$/, access: 'open', answer: async () => textResponse(200, metrics(), PROMETHEUS_TYPE) },
  ];
}
