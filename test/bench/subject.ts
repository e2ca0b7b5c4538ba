// What a subject of the bench is, and how its samples are taken.

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export interface Row {
  readonly what: string;
  readonly value: string;
  readonly unit: string;
}

/** Measures, and says meanwhile what it is at. */
export type Subject = (progress: (what: string) => void) => Promise<Row[]>;

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const SAMPLES = 3;

/** The median of three samples, taken one after the other, of each number that a sample holds. */
export async function medians<Name extends string>(
  sample: (turn: number) => Promise<Readonly<Record<Name, number>>>,
): Promise<Readonly<Record<Name, number>>> {
  const first = await sample(1);
  const taken = [first];
  while (taken.length < SAMPLES) taken.push(await sample(taken.length + 1));
  const result: Record<Name, number> = { ...first };
  for (const name in result) result[name] = medianOf(taken.map((each) => each[name]));
  return result;
}

export function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Seconds of this process's CPU time that a piece of work takes. */
export function cpuSeconds(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

/** Runs a script of this folder in a process of its own, so that nothing is warm; it prints its numbers as JSON. */
export async function inOwnProcess(script: string, ...args: readonly string[]): Promise<Record<string, number>> {
  const loaders = ['--import', 'tsx', '--import', './infra/build/text-import.mjs'];
  const { stdout } = await promisify(execFile)(process.execPath, [...loaders, `test/bench/${script}`, ...args], { cwd: ROOT });
  const numbers: Record<string, number> = {};
  for (const [name, value] of Object.entries(JSON.parse(stdout))) numbers[name] = Number(value);
  return numbers;
}

export function counted(count: number): string {
  return count.toLocaleString('en');
}

export const seconds = (what: string, value = Number.NaN): Row => ({ what, value: value.toFixed(2), unit: 'CPU s' });
export const kibibytes = (what: string, bytes: number): Row => ({ what, value: counted(Math.round(bytes / 1024)), unit: 'KiB' });
