// Commits a change of one table with iptables-restore, and tells bad content from a node that could not do it now.

import type { Family } from '../../shared/endpoint.ts';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import { countRules } from '../../shared/iptables/chain-parts.ts';
import { chainLines, insertedJumps } from '../../shared/iptables/restore-text.ts';
import type { RunProgram } from '../run-program.ts';
import type { TableChange } from './plan.ts';
import { type BackEnd, type InstalledTool, isLocked, isNewerOrSame, programName } from './tool.ts';

/** Seconds that the legacy tool waits for the lock of the tables; without a limit it waits for ever. */
const LOCK_WAIT_SECONDS = 5;
/** A full load of 20,000 services takes half a minute of CPU. */
const TIMEOUT_MS = 300_000;
const LONGEST_MESSAGE = 2_000;

/**
 * Commits one change: all of it or, when the tool answered with a failure, none.
 * @throws HeadgateError `rules-refused` when the tool or the kernel judged the content bad, `tables-locked` when others kept the lock of
 *   the legacy tables, `restore-failed` when it could not be done now (memory, permission); all of stage `apply` and in the tool's own
 *   words. What `run` throws goes through: then nobody knows.
 */
export async function restore(
  run: RunProgram,
  tool: InstalledTool,
  family: Family,
  change: TableChange,
  load: 'full' | 'partial',
): Promise<void> {
  const program = programName(tool.backEnd, family, 'restore');
  const large = isLarge(change);
  const listFirst = (load === 'full' || large) && listsFirst(tool, change);
  const input = large ? piecesOf(restoreLines(change, listFirst)) : restoreText(change, listFirst);
  const result = await run([program, '--noflush', '-w', String(LOCK_WAIT_SECONDS)], {
    input,
    timeoutMs: TIMEOUT_MS,
    outputLimit: 64 * 1024,
  });
  if (result.code === 0) return;
  throw new HeadgateError(
    failureCode(tool.backEnd, result.code, result.stderr),
    'apply',
    restoreMessage(program, result.code, result.stderr, restoreLines(change, listFirst)),
  );
}

/** True for an error that is the tool's answer: the change was not made. */
export function isAnswer(error: unknown): boolean {
  return error instanceof HeadgateError && ANSWERS.has(error.code);
}

const ANSWERS: ReadonlySet<string> = new Set(['rules-refused', 'tables-locked', 'restore-failed']);

/** The change as input of `iptables-restore --noflush`. `listFirst` begins with `-S`, see `listsFirst`. */
export function restoreText(change: TableChange, listFirst = false): string {
  return `${[...restoreLines(change, listFirst)].join('\n')}\n`;
}

function* restoreLines(change: TableChange, listFirst: boolean): Generator<string, undefined> {
  yield `*${change.table}`;
  if (listFirst) {
    yield '-S';
    for (const [chain, policy] of change.policies) yield `:${chain} ${policy} [0:0]`;
  }
  yield* chainLines(change.chains);
  for (const { chain, rule } of change.deleteJumps) yield `-D ${chain} ${rule}`;
  yield* insertedJumps(change.insertJumps);
  for (const chain of change.removeChains) yield `-X ${chain}`;
  yield 'COMMIT';
}

/** Lines that are given to the tool together: all of them at once would take much memory. */
const LINES_TOGETHER = 1_000;

function* piecesOf(lines: Iterable<string>): Generator<string, undefined> {
  let piece: string[] = [];
  for (const line of lines) {
    piece.push(line);
    if (piece.length < LINES_TOGETHER) continue;
    yield `${piece.join('\n')}\n`;
    piece = [];
  }
  yield `${piece.join('\n')}\n`;
}

/**
 * A large nft load is quadratic unless the first command makes the tool fetch the whole table once: `-S` does, and prints the table. Then
 * it does not make missing built-in chains by itself, so they are declared, and a declaration sets the policy. Filter is left alone
 * for that: its policies are the administrator's, and may change while we load.
 */
function listsFirst(tool: InstalledTool, change: TableChange): boolean {
  return tool.backEnd === 'nft' && change.table === 'nat' && isNewerOrSame(tool.version, '1.8.5');
}

/** Rules that iptables-nft loads within a second without a listing; eight times as many take minutes. */
const MOST_WITHOUT_LISTING = 10_000;

function isLarge({ chains }: TableChange): boolean {
  return countRules(chains) > MOST_WITHOUT_LISTING;
}

/**
 * Exit 2 is bad usage: a line that does not parse. What the kernel did not take is exit 4 and in words for nft, exit 1 for legacy.
 */
function failureCode(backEnd: BackEnd, code: number, stderr: string): 'rules-refused' | 'tables-locked' | 'restore-failed' {
  if (isLocked(backEnd, code)) return 'tables-locked';
  const refused = code === 4 ? BAD_FOR_KERNEL.test(stderr) : (code === 1 || code === 2) && !NODE_AT_FAULT.test(stderr);
  return refused ? 'rules-refused' : 'restore-failed';
}

const BAD_FOR_KERNEL =
  /failed \((?:No such file or directory|Invalid argument|Operation not supported|Numerical result out of range|File name too long)\)/;
const NODE_AT_FAULT = /Too many links|[Pp]ermission denied|must be root|unable to initialize table/;

function restoreMessage(program: string, code: number, stderr: string, input: Iterable<string>): string {
  const words = errorMessage(stderr.replace(/^Try `.*$/gm, ''));
  const number = Number(/line:? (\d+)/.exec(words)?.[1] ?? 0);
  const line = lineAt(input, number);
  const culprit = line === undefined || line === 'COMMIT' ? '' : ` (line ${number}: ${line})`;
  return `${program} failed (exit ${code}): ${words}${culprit}`.slice(0, LONGEST_MESSAGE);
}

/** Counted from one. */
function lineAt(lines: Iterable<string>, number: number): string | undefined {
  let count = 0;
  for (const line of lines) if (++count === number) return line;
  return undefined;
}
