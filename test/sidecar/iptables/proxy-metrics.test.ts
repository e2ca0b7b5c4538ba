import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from '../../../shared/prometheus.ts';
import { ProxyMetrics } from '../../../sidecar/iptables/proxy-metrics.ts';
import { rulesetsOf } from './rulesets.ts';

const START = 1_700_000_000_000;
const { IPv4, IPv6 } = rulesetsOf([{ key: 'ns/a:http', address: '172.30.0.41', endpoints: ['10.180.0.1:80', '10.180.0.2:80'] }]);

interface Counted {
  readonly counted: ProxyMetrics;
  /** The value of a line of the exposition. */
  readonly value: (series: string) => number | undefined;
  readonly at: (ms: number) => void;
}

function counting(): Counted {
  const metrics = new Metrics();
  let now = START;
  return {
    counted: new ProxyMetrics(metrics, () => now),
    value: (series) => {
      const line = metrics
        .text()
        .split('\n')
        .find((each) => each.startsWith(`${series} `));
      return line === undefined ? undefined : Number(line.slice(series.length + 1));
    },
    at: (ms) => {
      now = START + ms;
    },
  };
}

test('everything is there from the start, with nothing counted', () => {
  const { value } = counting();
  for (const name of ['sync_proxy_rules', 'sync_full_proxy_rules', 'sync_partial_proxy_rules', 'network_programming']) {
    assert.equal(value(`kubeproxy_${name}_duration_seconds_count`), 0);
    assert.equal(value(`kubeproxy_${name}_duration_seconds_bucket{le="+Inf"}`), 0);
  }
  assert.equal(value('kubeproxy_sync_proxy_rules_iptables_restore_failures_total'), 0);
  assert.equal(value('kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total'), 0);
  assert.equal(value('kubeproxy_sync_proxy_rules_last_timestamp_seconds'), undefined);
});

test('full and partial syncs are told apart, and both are syncs', () => {
  const { counted, value, at } = counting();
  at(2_500);
  counted.synced({ how: 'restore', durationMs: 2_000, movedAt: 0, rulesets: [IPv4, IPv6] });
  counted.synced({ how: 'partial', durationMs: 30, movedAt: 0, rulesets: [IPv4, IPv6] });
  counted.synced({ how: 'unchanged', durationMs: 1, movedAt: 0, rulesets: [IPv4, IPv6] });
  assert.equal(value('kubeproxy_sync_proxy_rules_duration_seconds_count'), 3);
  assert.equal(value('kubeproxy_sync_full_proxy_rules_duration_seconds_sum'), 2);
  assert.equal(value('kubeproxy_sync_full_proxy_rules_duration_seconds_bucket{le="1.024"}'), 0);
  assert.equal(value('kubeproxy_sync_full_proxy_rules_duration_seconds_bucket{le="2.048"}'), 1);
  assert.equal(value('kubeproxy_sync_partial_proxy_rules_duration_seconds_count'), 1);
  assert.equal(value('kubeproxy_sync_proxy_rules_last_timestamp_seconds'), START / 1000 + 2.5);
});

test('rules are counted by table, jumps included', () => {
  const { counted, value } = counting();
  counted.synced({ how: 'restore', durationMs: 1, movedAt: 0, rulesets: [IPv4, IPv6] });
  // Per family: mark, three of postrouting, three jumps; the service: dispatch twice, two balancing rules, two of each endpoint.
  assert.equal(value('kubeproxy_sync_proxy_rules_iptables_total{table="nat"}'), 2 * 7 + 8);
  assert.equal(value('kubeproxy_sync_proxy_rules_iptables_total{table="filter"}'), 2 * 5);
});

test('programming is measured from the move of the head, not for what waited since before the start', () => {
  const { counted, value, at } = counting();
  const programming = 'kubeproxy_network_programming_duration_seconds';
  at(5_000);
  counted.synced({ how: 'restore', durationMs: 1, movedAt: START - 60_000, rulesets: [] });
  assert.equal(value(`${programming}_count`), 0);
  counted.synced({ how: 'partial', durationMs: 1, movedAt: START + 3_500, rulesets: [] });
  counted.synced({ how: 'partial', durationMs: 1, movedAt: START + 9_000, rulesets: [] });
  assert.equal(value(`${programming}_count`), 2);
  assert.equal(value(`${programming}_sum`), 1.5, 'a clock that is ahead gives 0, not less');
  assert.equal(value(`${programming}_bucket{le="1"}`), 1);
  assert.equal(value(`${programming}_bucket{le="2"}`), 2);
});

test('a partial restore that fails is a restore that fails', () => {
  const { counted, value } = counting();
  counted.restoreFailed('partial');
  counted.restoreFailed('full');
  assert.equal(value('kubeproxy_sync_proxy_rules_iptables_restore_failures_total'), 2);
  assert.equal(value('kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total'), 1);
});
