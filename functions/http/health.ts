// Whether this host works, for people and for what watches it.

import { PROMETHEUS_TYPE } from '../../shared/prometheus.ts';
import { type Endpoint, textResponse } from '../http.ts';

export interface Readiness {
  readonly ready: boolean;
  /** What is wrong, one reason each; a host may be ready all the same. */
  readonly reasons: readonly string[];
}

export interface HealthOptions {
  readonly readiness: () => Readiness;
  readonly metrics: () => string;
}

export function healthEndpoints({ readiness, metrics }: HealthOptions): Endpoint[] {
  return [
    { method: 'GET', path: /^\/healthz$/, access: 'open', answer: async () => textResponse(200, 'ok\n') },
    {
      method: 'GET',
      path: /^\/readyz$/,
      access: 'open',
      answer: async () => {
        const { ready, reasons } = readiness();
        if (ready) return textResponse(200, ['ready', ...reasons, ''].join('\n'));
        return { status: 503, code: 'not-ready', detail: reasons.join('; ') };
      },
    },
    { method: 'GET', path: /^\/metrics$/, access: 'open', answer: async () => textResponse(200, metrics(), PROMETHEUS_TYPE) },
  ];
}
