// HAProxy's own words about a configuration: its alerts, without secrets.

import type { Files } from '../../shared/files.ts';

/** Keywords of lines that hold a secret. */
const SECRET_LINE = /\b(?:password|dynamic-cookie-key|auth)\b/;
const LINES_KEPT = 10;

/**
 * The alerts in what HAProxy printed, on one line, joined by `; `; without alerts, the last thing it said. An alert about a line that holds
 * a secret keeps its place only, because HAProxy quotes.
 * @param files the composed files that it is about
 */
export function alertWords(output: string, files: Files): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const alerts = lines.filter((line) => line.startsWith('[ALERT]'));
  const telling = alerts.filter((line) => !/Error\(s\) found in|Fatal errors found in|FD limit/.test(line));
  const chosen = telling.length > 0 ? telling : lines.slice(-1);
  const words = chosen.slice(0, LINES_KEPT).map((line) => withoutSecret(line.replace(/^\[\w+\]\s+\(\d+\)\s*:\s*/, ''), files));
  if (chosen.length > LINES_KEPT) words.push(`and ${chosen.length - LINES_KEPT} more`);
  return words.length === 0 ? 'HAProxy said nothing' : words.join('; ');
}

function withoutSecret(words: string, files: Files): string {
  const place = /\[([^\]:]+):(\d+)\]/.exec(words);
  const content = files.get(`router/${place?.[1] ?? ''}`);
  if (place === null || content === undefined) return words;
  const text = typeof content === 'string' ? content : Buffer.from(content).toString('utf8');
  const line = text.split('\n')[Number(place[2]) - 1] ?? '';
  return SECRET_LINE.test(line) ? `${place[0]}: a line that holds a secret is wrong` : words;
}
