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
  const input = restoreText(change, (load === 'full' || isLarge(change)) && listsFirst(tool, change));
  const result = await run([program, '--noflush', '-w', String(LOCK_WAIT_SECONDS)], {
    input,
    timeoutMs: TIMEOUT_MS,
    outputLimit: 64 * 1024,
  });
  if (result.code === 0) return;
  throw new HeadgateError(
    failureCode(tool.backEnd, result.code, result.stderr),
    'apply',
    restoreMessage(program, result.code, result.stderr, input),
  );
}

/** True for an error that is the tool's answer: the change was not made. */
export function isAnswer(error: unknown): boolean {
  return error instanceof HeadgateError && ANSWERS.has(error.code);
}

const ANSWERS: ReadonlySet<string> = new Set(['rules-refused', 'tables-locked', 'restore-failed']);

/** The change as input of `iptables-restore --noflush`. `listFirst` begins with `-S`, see `listsFirst`. */
export function restoreText(change: TableChange, listFirst = false): string {
  const lines = [
    `*${change.table}`,
    ...(listFirst ? ['-S', ...[...change.policies].map(([chain, policy]) => `:${chain} ${policy} [0:0]`)] : []),
    ...chainLines(change.chains),
    ...change.deleteJumps.map(({ chain, rule }) => `-D ${chain} ${rule}`),
    ...insertedJumps(change.insertJumps),
    ...change.removeChains.map((chain) => `-X ${chain}`),
    'COMMIT',
  ];
  return `${lines.join('\n')}\n`;
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

function restoreMessage(program: string, code: number, stderr: string, input: string): string {
  const words = errorMessage(stderr.replace(/^Try `.*$/gm, ''));
  const number = Number(/line:? (\d+)/.exec(words)?.[1] ?? 0);
  const line = input.split('\n')[number - 1];
  const culprit = line === undefined || line === 'COMMIT' ? '' : ` (line ${number}: ${line})`;
  return `${program} failed (exit ${code}): ${words}${culprit}`.slice(0, LONGEST_MESSAGE);
}
