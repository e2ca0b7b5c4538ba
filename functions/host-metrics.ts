// What a host of the functions counts, under the names that its /metrics serves.

import { Metrics } from '../shared/prometheus.ts';
import type { Hello, Result } from '../shared/protocol.ts';
import type { HeadSource } from './head-source.ts';
import type { StreamReports } from './stream.ts';
import type { PassOutcome } from './triggers.ts';

export class HostMetrics implements StreamReports {
  readonly #metrics = new Metrics();
  #nodes = 0;

  constructor() {
    this.#metrics.declare('headgate_head_sequence', 'gauge', 'Sequence of the head that is offered');
    this.#metrics.declare('headgate_head_version', 'gauge', 'Version that nodes should run');
    this.#metrics.declare('headgate_stream_nodes', 'gauge', 'Nodes whose stream is open here');
    this.#metrics.declare('headgate_stream_results_total', 'counter', 'Results that nodes reported here');
    this.#metrics.declare('headgate_reconciles_total', 'counter', 'Looks at the cluster, by how they ended');
  }

  connected(_hello: Hello): void {
    this.#nodes += 1;
  }

  disconnected(_node: string): void {
    this.#nodes -= 1;
  }

  result(_node: string, { role, outcome }: Result): void {
    this.#metrics.add('headgate_stream_results_total', 1, { role, outcome });
  }

  looked(outcome: PassOutcome): void {
    this.#metrics.add('headgate_reconciles_total', 1, { outcome });
  }

  text({ current }: HeadSource): string {
    this.#metrics.set('headgate_stream_nodes', this.#nodes);
    if (current !== null) {
      this.#metrics.set('headgate_head_sequence', current.revision.head.sequence);
      this.#metrics.set('headgate_head_version', current.revision.head.target.number);
    }
    return this.#metrics.text();
  }
}
