import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from '../../shared/prometheus.ts';

test('metrics are printed with help, type, and labels in order, escaped', () => {
  const metrics = new Metrics();
  metrics.declare('a_total', 'counter', 'What a is');
  metrics.declare('b', 'gauge', 'What b is');
  metrics.add('a_total', 1, { z: 'x', a: 'say "hi"\n\\' });
  metrics.add('a_total', 2, { a: 'say "hi"\n\\', z: 'x' });
  metrics.set('b', 5);
  metrics.set('b', 7);
  assert.equal(
    metrics.text(),
    [
      '# HELP a_total What a is',
      '# TYPE a_total counter',
      String.raw`a_total{a="say \"hi\"\n\\",z="x"} 3`,
      '# HELP b What b is',
      '# TYPE b gauge',
      'b 7',
      '',
    ].join('\n'),
  );
});

test('a metric that was not declared is a mistake', () => {
  assert.throws(() => new Metrics().add('a', 1), /not declared/);
});

test('a histogram has rising buckets that include the smaller ones, a sum and a count', () => {
  const metrics = new Metrics();
  metrics.declareHistogram('h_seconds', 'What h is', [0.5, 2, 10]);
  for (const value of [0.5, 1, 3, 30]) metrics.observe('h_seconds', value);
  assert.equal(
    metrics.text(),
    [
      '# HELP h_seconds What h is',
      '# TYPE h_seconds histogram',
      'h_seconds_bucket{le="0.5"} 1',
      'h_seconds_bucket{le="2"} 2',
      'h_seconds_bucket{le="10"} 3',
      'h_seconds_bucket{le="+Inf"} 4',
      'h_seconds_sum 34.5',
      'h_seconds_count 4',
      '',
    ].join('\n'),
  );
});
