// How commands print: tables for people, JSON for machines.

import { compareText } from '../../shared/json.ts';
import type { Rejection } from '../../shared/rejection.ts';

/** A value as indented JSON with a final newline, on standard output. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value, null, 2)}\n`);
}

export function printLine(text: string): void {
  process.stdout.write(`${printable(text)}\n`);
}

/** Columns aligned with two spaces between; the first row is the heading, bold on a terminal. */
export function printTable(rows: readonly (readonly string[])[]): void {
  for (const line of tableLines(rows)) process.stdout.write(`${line}\n`);
}

/** The lines of a table without trailing spaces. */
export function tableLines(rows: readonly (readonly string[])[]): string[] {
  const cells = rows.map((row) => row.map(printable));
  const columns = Math.max(0, ...cells.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  return cells.map((row, index) => {
    const line = row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
    return index === 0 && process.stdout.isTTY ? `\x1b[1m${line}\x1b[0m` : line;
  });
}

/** One line for each rejection, on standard error. */
export function printRejections(rejections: readonly Rejection[]): void {
  for (const rejection of rejections) {
    const object = `${rejection.kind} ${rejection.namespace === '' ? '' : `${rejection.namespace}/`}${rejection.name}`;
    const what = rejection.scope === 'object' ? ' left out' : '';
    const field = rejection.field === '' ? '' : ` ${rejection.field}:`;
    process.stderr.write(`${printable(`${object}${what}: ${rejection.reason}:${field} ${rejection.message}`)}\n`);
  }
}

/** One line on standard error. */
export function printWarning(text: string): void {
  process.stderr.write(`headgate: warning: ${printable(text)}\n`);
}

/** Text from the cluster with control characters made visible, so that it cannot move the cursor or forge a line. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);
}

/** Keys of a record in their one order. */
export function sortedKeys(record: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(record).sort(compareText);
}
