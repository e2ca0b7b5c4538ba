// Which iptables this node uses. Two back ends can rule one kernel at once and must not be mixed: we join the one that
// holds rules already, and call its programs by their explicit names.

import { FAMILIES, type Family } from '../../shared/endpoint.ts';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { RunProgram } from '../run-program.ts';

export type BackEnd = 'nft' | 'legacy';
export const BACK_ENDS: readonly BackEnd[] = ['nft', 'legacy'];

export interface InstalledTool {
  readonly backEnd: BackEnd;
  /** `1.8.9` */
  readonly version: string;
}

export interface Tool extends InstalledTool {
  /** Those that this kernel can filter; IPv6 may be switched off. */
  readonly families: readonly Family[];
}

/** Older releases corrupt large nft loads or lack `-w` in restore. */
const OLDEST = '1.8.4';
const INSTALL = `install iptables ${OLDEST} or newer (packages: iptables; on Fedora and RHEL iptables-nft)`;

/** The name of a program of the tool: `ip6tables-nft-restore`. */
export function programName(backEnd: BackEnd, family: Family, action: 'save' | 'restore'): string {
  return `${family === 'IPv6' ? 'ip6tables' : 'iptables'}-${backEnd}-${action}`;
}

/**
 * Finds the back end of this node: the one with Kubernetes' rules; else the one with any rules; else nft.
 * @throws HeadgateError `iptables-missing` or `iptables-too-old` (stage `check`): the message says what to install
 */
export async function detectTool(run: RunProgram, signal: AbortSignal): Promise<Tool> {
  const [first, second] = await installedTools(run, signal);
  if (first === undefined) throw new HeadgateError('iptables-missing', 'check', `iptables is not installed on this node; ${INSTALL}`);
  const tool = second === undefined ? first : await toolInUse(run, [first, second], signal);
  if (isNewerOrSame(tool.version, OLDEST)) return { ...tool, families: await supportedFamilies(run, tool.backEnd, signal) };
  throw new HeadgateError('iptables-too-old', 'check', `iptables ${tool.version} (${tool.backEnd}) is too old; ${INSTALL}`);
}

/** Both back ends, when both are there; nft first. */
export async function installedTools(run: RunProgram, signal: AbortSignal): Promise<InstalledTool[]> {
  const versions = await Promise.all(BACK_ENDS.map((backEnd) => installedVersion(run, backEnd, signal)));
  return BACK_ENDS.flatMap((backEnd, index) => {
    const version = versions[index] ?? null;
    return version === null ? [] : [{ backEnd, version }];
  });
}

/** The rules of one family as the tool saves them. Throws as `saveLines` does. */
export async function saveText(run: RunProgram, backEnd: BackEnd, family: Family, signal?: AbortSignal): Promise<string> {
  const lines: string[] = [];
  await saveLines(run, backEnd, family, (line) => lines.push(line), signal);
  return [...lines, ''].join('\n');
}

/**
 * Gives each line that the tool saves of one family.
 * @throws HeadgateError `save-failed` (stage `check`) with the tool's own words
 */
export async function saveLines(
  run: RunProgram,
  backEnd: BackEnd,
  family: Family,
  onLine: (line: string) => void,
  signal?: AbortSignal,
): Promise<void> {
  const program = programName(backEnd, family, 'save');
  const { code, stderr } = await run([program], { onLine, timeoutMs: 120_000, ...(signal === undefined ? {} : { signal }) });
  if (code !== 0) throw new HeadgateError('save-failed', 'check', `${program} failed (exit ${code}): ${errorMessage(stderr)}`);
}

/** True when a dotted version is at least another one. */
export function isNewerOrSame(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split('.').map(Number));
  for (let part = 0; part < 3; part++) {
    const difference = (a?.[part] ?? 0) - (b?.[part] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}

async function installedVersion(run: RunProgram, backEnd: BackEnd, signal: AbortSignal): Promise<string | null> {
  try {
    const { stdout } = await run([programName(backEnd, 'IPv4', 'restore'), '--version'], { signal });
    return /v(\d+\.\d+\.\d+)/.exec(stdout)?.[1] ?? null;
  } catch (error) {
    if (error instanceof HeadgateError && error.code === 'program-missing') return null;
    throw error;
  }
}

async function toolInUse(run: RunProgram, installed: readonly [InstalledTool, InstalledTool], signal: AbortSignal): Promise<InstalledTool> {
  const [nft] = installed;
  if (nft.backEnd === 'nft' && (await nftLeadsToKubernetes(run, signal))) return nft;
  const seen: { tool: InstalledTool; kubernetes: boolean; rules: boolean }[] = [];
  for (const tool of installed) {
    const texts = await Promise.all(FAMILIES.map((family) => savedIfAny(run, tool.backEnd, family, signal)));
    const text = texts.join('\n');
    seen.push({ tool, kubernetes: /^:KUBE-/m.test(text), rules: /^-A /m.test(text) });
  }
  const used = seen.find(({ kubernetes }) => kubernetes) ?? seen.find(({ rules }) => rules);
  return used?.tool ?? installed[0];
}

/** The usual answer at once, without all the rules of a large cluster: built-in chains have jumps to chains of Kubernetes. */
async function nftLeadsToKubernetes(run: RunProgram, signal: AbortSignal): Promise<boolean> {
  const input = '*nat\n-S PREROUTING\n-S OUTPUT\nCOMMIT\n*filter\n-S INPUT\n-S OUTPUT\nCOMMIT\n';
  const { code, stdout } = await run([programName('nft', 'IPv4', 'restore'), '--noflush'], { input, signal });
  return code === 0 && / -j KUBE-/.test(stdout);
}

/** What cannot be read holds no rules that matter here. */
async function savedIfAny(run: RunProgram, backEnd: BackEnd, family: Family, signal: AbortSignal): Promise<string> {
  try {
    return await saveText(run, backEnd, family, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof HeadgateError && error.code === 'save-failed') return '';
    throw error;
  }
}

/** IPv6 is left out where IPv4 works and IPv6 does not; where neither works, writing will say why. */
async function supportedFamilies(run: RunProgram, backEnd: BackEnd, signal: AbortSignal): Promise<readonly Family[]> {
  const works = await Promise.all(FAMILIES.map((family) => listsTable(run, backEnd, family, signal)));
  return works[0] === true && works[1] === false ? ['IPv4'] : FAMILIES;
}

async function listsTable(run: RunProgram, backEnd: BackEnd, family: Family, signal: AbortSignal): Promise<boolean> {
  const argv = [programName(backEnd, family, 'restore'), '--noflush', '-w', '5'];
  const { code } = await run(argv, { input: '*nat\n-S POSTROUTING\nCOMMIT\n', signal });
  return code === 0 || isLocked(backEnd, code);
}

/** Exit 4 of legacy: others kept the lock of the tables. nft has no lock and uses 4 for what the kernel answered. */
export function isLocked(backEnd: BackEnd, code: number): boolean {
  return backEnd === 'legacy' && code === 4;
}
