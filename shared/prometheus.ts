// Metrics in Prometheus' text format: a few counters, gauges and histograms, kept in memory by the process that serves them.

import { compareText } from './json.ts';

export type Labels = Readonly<Record<string, string>>;

interface Family {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  /** Upper bounds of a histogram's buckets, rising; `+Inf` is not among them. */
  readonly bounds: readonly number[];
  /** What is printed after the name (the suffix of a histogram's line, and rendered labels) -> value. */
  readonly values: Map<string, number>;
}

export class Metrics {
  readonly #families = new Map<string, Family>();

  /** Declares a metric, so that it is listed before its first value. */
  declare(name: string, kind: 'counter' | 'gauge', help: string): void {
    if (!this.#families.has(name)) this.#families.set(name, { kind, help, bounds: [], values: new Map() });
  }

  /** Declares a histogram without labels. It is there from the start, with nothing observed. */
  declareHistogram(name: string, help: string, bounds: readonly number[]): void {
    if (this.#families.has(name)) return;
    const lines = [...bounds.map(bucketLine), INFINITE, '_sum', '_count'];
    this.#families.set(name, { kind: 'histogram', help, bounds, values: new Map(lines.map((line) => [line, 0])) });
  }

  add(name: string, amount: number, labels: Labels = {}): void {
    increase(this.#familyOf(name).values, renderLabels(labels), amount);
  }

  set(name: string, value: number, labels: Labels = {}): void {
    this.#familyOf(name).values.set(renderLabels(labels), value);
  }

  /** Counts a value in a histogram. */
  observe(name: string, value: number): void {
    const { bounds, values } = this.#familyOf(name);
    for (const bound of bounds) if (value <= bound) increase(values, bucketLine(bound), 1);
    increase(values, INFINITE, 1);
    increase(values, '_sum', value);
    increase(values, '_count', 1);
  }

  /** The exposition, `text/plain; version=0.0.4`. */
  text(): string {
    const lines = [...this.#families].flatMap(([name, { kind, help, values }]) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${kind}`,
      ...inOrder(kind, values).map(([after, value]) => `${name}${after} ${value}`),
    ]);
    return `${lines.join('\n')}\n`;
  }

  #familyOf(name: string): Family {
    const family = this.#families.get(name);
    if (family === undefined) throw new TypeError(`metric ${name} is not declared`);
    return family;
  }
}

export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

const INFINITE = '_bucket{le="+Inf"}';

function bucketLine(bound: number): string {
  return `_bucket{le="${bound}"}`;
}

function increase(values: Map<string, number>, key: string, amount: number): void {
  values.set(key, (values.get(key) ?? 0) + amount);
}

/** Series by their labels; a histogram's lines as declared, for its buckets rise. */
function inOrder(kind: Family['kind'], values: ReadonlyMap<string, number>): [string, number][] {
  return kind === 'histogram' ? [...values] : [...values].sort(([a], [b]) => compareText(a, b));
}

function renderLabels(labels: Labels): string {
  const entries = Object.entries(labels).sort(([a], [b]) => compareText(a, b));
  if (entries.length === 0) return '';
  return `{${entries.map(([name, value]) => `${name}="${escapeLabel(value)}"`).join(',')}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
