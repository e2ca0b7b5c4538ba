// What a sidecar counts, under the names that its /metrics serves.

import type { Metrics } from '../shared/prometheus.ts';
import type { Result } from '../shared/protocol.ts';
import type { Role } from '../shared/role.ts';

export class SidecarMetrics {
  readonly #metrics: Metrics;

  /** @param metrics those that are served; roles add theirs */
  constructor(metrics: Metrics) {
    this.#metrics = metrics;
    this.#metrics.declare('headgate_sidecar_connected', 'gauge', '1 while the stream to a host is open');
    this.#metrics.declare('headgate_sidecar_sequence', 'gauge', 'Highest sequence of the head that was seen');
    this.#metrics.declare('headgate_sidecar_version', 'gauge', 'Version that the role runs');
    this.#metrics.declare('headgate_sidecar_applies_total', 'counter', 'Contents brought to the node, by outcome and by how');
    this.#metrics.declare('headgate_sidecar_apply_duration_seconds', 'gauge', 'How long the last one took');
    this.#metrics.declare(
      'headgate_sidecar_drift_repaired_total',
      'counter',
      'Differences between what ran and what was applied, put right',
    );
    this.connected(false);
  }

  connected(open: boolean): void {
    this.#metrics.set('headgate_sidecar_connected', open ? 1 : 0);
  }

  sequenceSeen(sequence: number): void {
    this.#metrics.set('headgate_sidecar_sequence', sequence);
  }

  applied({ role, outcome, how, version, durationMs }: Result): void {
    this.#metrics.add('headgate_sidecar_applies_total', 1, { role, outcome, how: how ?? 'none' });
    this.#metrics.set('headgate_sidecar_apply_duration_seconds', durationMs / 1000, { role });
    if (outcome === 'applied') this.runs(role, version);
  }

  runs(role: Role, version: number): void {
    this.#metrics.set('headgate_sidecar_version', version, { role });
  }

  driftRepaired(role: Role, count: number): void {
    this.#metrics.add('headgate_sidecar_drift_repaired_total', count, { role });
  }
}
