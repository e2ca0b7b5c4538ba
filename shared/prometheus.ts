// Metrics in Prometheus' text format: a few counters and gauges, kept in memory by the process that serves them.

import { compareText } from './json.ts';

export type Labels = Readonly<Record<string, string>>;

interface Family {
  readonly kind: 'counter' | 'gauge';
  readonly help: string;
  /** Rendered labels -> value. */
  readonly values: Map<string, number>;
}

export class Metrics {
  readonly #families = new Map<string, Family>();

  /** Declares a metric, so that it is listed before its first value. */
  declare(name: string, kind: 'counter' | 'gauge', help: string): void {
    if (!this.#families.has(name)) this.#families.set(name, { kind, help, values: new Map() });
  }

  add(name: string, amount: number, labels: Labels = {}): void {
    const values = this.#valuesOf(name);
    const key = renderLabels(labels);
    values.set(key, (values.get(key) ?? 0) + amount);
  }

  set(name: string, value: number, labels: Labels = {}): void {
    this.#valuesOf(name).set(renderLabels(labels), value);
  }

  /** The exposition, `text/plain; version=0.0.4`. */
  text(): string {
    const lines = [...this.#families].flatMap(([name, { kind, help, values }]) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${kind}`,
      ...[...values].sort(([a], [b]) => compareText(a, b)).map(([labels, value]) => `${name}${labels} ${value}`),
    ]);
    return `${lines.join('\n')}\n`;
  }

  #valuesOf(name: string): Map<string, number> {
    const family = this.#families.get(name);
    if (family === undefined) throw new TypeError(`metric ${name} is not declared`);
    return family.values;
  }
}

export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

function renderLabels(labels: Labels): string {
  const entries = Object.entries(labels).sort(([a], [b]) => compareText(a, b));
  if (entries.length === 0) return '';
  return `{${entries.map(([name, value]) => `${name}="${escapeLabel(value)}"`).join(',')}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
