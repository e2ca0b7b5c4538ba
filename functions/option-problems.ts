// What is wrong with the options, in words: the key, what was expected, what was found. A value is repeated only where it
// cannot be a secret.

import type { z } from 'zod';
import { shown } from '../shared/rejection.ts';

type Issue = z.core.$ZodIssue;

/**
 * One sentence for each thing that is wrong.
 * @param written the whole value that was checked
 * @param knownKeys every key in full, `router.httpPort`
 */
export function optionProblems(issues: readonly Issue[], written: unknown, knownKeys: readonly string[]): string[] {
  return issues.flatMap((issue) => {
    const value = valueAt(written, issue.path);
    const inner = meantBranch(issue, value);
    if (inner !== null) return optionProblems(inner, written, knownKeys);
    const key = keyOf(issue.path);
    if (issue.code === 'unrecognized_keys') return issue.keys.map((name) => unknownKey(key === '' ? name : `${key}.${name}`, knownKeys));
    return [`${key === '' ? 'the file' : key}: ${expectation(issue)}, found ${found(issue, value)}`];
  });
}

/** What is wrong with keys and values where other forms are allowed too: what the form with keys says, its paths completed. */
function meantBranch(issue: Issue, value: unknown): Issue[] | null {
  if (issue.code !== 'invalid_union' || typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const meant = issue.errors.find((branch) => !branch.some((inner) => inner.code === 'invalid_type' && inner.path.length === 0));
  return meant?.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] })) ?? null;
}

/** `iptables.clusterCIDRs[0]`. */
function keyOf(path: readonly PropertyKey[]): string {
  return path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .replace(/^\./, '');
}

function unknownKey(key: string, knownKeys: readonly string[]): string {
  const nearest = nearestKey(key, knownKeys);
  return nearest === null ? `${oneLine(key)}: unknown key` : `${oneLine(key)}: unknown key; did you mean ${nearest}?`;
}

const EXPECTED: Readonly<Record<string, string>> = {
  number: 'a whole number',
  int: 'a whole number',
  string: 'text',
  boolean: 'true or false',
  array: 'a list',
  object: 'keys and values',
};

function expectation(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${EXPECTED[issue.expected] ?? issue.expected}`;
    case 'too_small':
      return `expected ${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}`;
    case 'too_big':
      return `expected at most ${issue.maximum}`;
    case 'invalid_value':
      return `expected one of ${issue.values.map(String).join(', ')}`;
    default:
      return issue.message;
  }
}

/** Values that had to be one of a few words, or that a check of ours calls harmless, are no secrets; other text may be a key or a password. */
function found(issue: Issue, value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'keys and values';
  const harmless = issue.code === 'invalid_value' || (issue.code === 'custom' && issue.params?.['harmless'] === true);
  return harmless && typeof value === 'string' && !value.includes('-----') ? shown(value) : 'text';
}

function valueAt(written: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, part) => (typeof value === 'object' && value !== null ? Reflect.get(value, part) : undefined),
    written,
  );
}

function oneLine(key: string): string {
  return key.replace(/[^\x21-\x7e]/g, '?').slice(0, 128);
}

/** The known key that a person most likely meant: the same last word but for a slip or two, the same section if possible. */
function nearestKey(key: string, knownKeys: readonly string[]): string | null {
  const scored = knownKeys.map((known) => ({
    known,
    score: 2 * editDistance(lastWord(key), lastWord(known)) + (sectionOf(key) === sectionOf(known) ? 0 : 1),
  }));
  const [best] = scored.sort((a, b) => a.score - b.score);
  return best !== undefined && best.score <= Math.min(5, lastWord(key).length) ? best.known : null;
}

function lastWord(key: string): string {
  return key
    .slice(key.lastIndexOf('.') + 1, key.lastIndexOf('.') + 65)
    .toLowerCase()
    .replace(/[-_]/g, '');
}

function sectionOf(key: string): string {
  return key.slice(0, Math.max(key.lastIndexOf('.'), 0));
}

/** Levenshtein's: how many letters to insert, drop or replace. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
