// What the service proxy counts, under kube-proxy's names where the meaning is kube-proxy's, so that dashboards and alerts made for it keep
// working.

import { countRules } from '../../shared/iptables/chain-parts.ts';
import { type Ruleset, type Table, TABLES } from '../../shared/iptables/ruleset.ts';
import { Metrics } from '../../shared/prometheus.ts';

/** Buckets of kube-proxy, in seconds. */
const SYNC_BOUNDS = Array.from({ length: 15 }, (_, power) => 2 ** power / 1000);
const PROGRAMMING_BOUNDS = [
  0.25,
  0.5,
  ...Array.from({ length: 59 }, (_, step) => 1 + step),
  ...Array.from({ length: 12 }, (_, step) => 60 + 5 * step),
  ...Array.from({ length: 7 }, (_, step) => 120 + 30 * step),
];

const SYNC = 'kubeproxy_sync_proxy_rules_duration_seconds';
const FULL = 'kubeproxy_sync_full_proxy_rules_duration_seconds';
const PARTIAL = 'kubeproxy_sync_partial_proxy_rules_duration_seconds';
const PROGRAMMING = 'kubeproxy_network_programming_duration_seconds';
const FAILURES = 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total';
const PARTIAL_FAILURES = 'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total';
const RULES = 'kubeproxy_sync_proxy_rules_iptables_total';
const LAST = 'kubeproxy_sync_proxy_rules_last_timestamp_seconds';

/** A content that the node runs now. */
export interface Synced {
  readonly how: 'restore' | 'partial' | 'unchanged';
  /** How long it took, ms. */
  readonly durationMs: number;
  /** When the head was moved to it, ms since the epoch. */
  readonly movedAt: number;
  readonly rulesets: readonly Ruleset[];
}

export class ProxyMetrics {
  readonly #metrics: Metrics;
  readonly #clock: () => number;
  readonly #since: number;

  /** @param clock ms since the epoch */
  constructor(metrics: Metrics = new Metrics(), clock: () => number = Date.now) {
    this.#metrics = metrics;
    this.#clock = clock;
    this.#since = clock();
    metrics.declareHistogram(SYNC, 'How long bringing the rules to new content took, in seconds', SYNC_BOUNDS);
    metrics.declareHistogram(FULL, 'The same for loads of all rules', SYNC_BOUNDS);
    metrics.declareHistogram(PARTIAL, 'The same for writes of the changed chains only', SYNC_BOUNDS);
    metrics.declareHistogram(PROGRAMMING, 'From the move of the head to the rules on this node, in seconds', PROGRAMMING_BOUNDS);
    metrics.declare(FAILURES, 'counter', 'Runs of iptables-restore that failed');
    metrics.declare(PARTIAL_FAILURES, 'counter', 'Writes of the changed chains that failed; a load of all rules follows');
    metrics.declare(RULES, 'gauge', 'Rules of the service proxy on this node, jumps included, by table');
    metrics.declare(LAST, 'gauge', 'When the rules were last brought to new content, in seconds since the epoch');
    for (const name of [FAILURES, PARTIAL_FAILURES]) metrics.add(name, 0);
  }

  synced({ how, durationMs, movedAt, rulesets }: Synced): void {
    const now = this.#clock();
    this.#metrics.observe(SYNC, durationMs / 1000);
    if (how !== 'unchanged') this.#metrics.observe(how === 'restore' ? FULL : PARTIAL, durationMs / 1000);
    // What waited since before the start says nothing of how fast this node follows.
    if (movedAt >= this.#since) this.#metrics.observe(PROGRAMMING, Math.max(0, now - movedAt) / 1000);
    for (const table of TABLES) this.#metrics.set(RULES, rulesIn(table, rulesets), { table });
    this.#metrics.set(LAST, now / 1000);
  }

  restoreFailed(load: 'full' | 'partial'): void {
    this.#metrics.add(FAILURES, 1);
    if (load === 'partial') this.#metrics.add(PARTIAL_FAILURES, 1);
  }
}

function rulesIn(table: Table, rulesets: readonly Ruleset[]): number {
  let count = 0;
  for (const { tables } of rulesets) {
    count += tables[table].jumps.length + countRules(tables[table].chains);
  }
  return count;
}
