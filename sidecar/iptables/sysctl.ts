// Kernel settings of the network namespace, through programs that every node and image has (`sysctl` is not one of them).

import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { RunProgram } from '../run-program.ts';

const FOLDER = '/proc/sys';

/** The value of `net/ipv4/...`; null when this kernel does not have the setting (now). */
export async function readSysctl(run: RunProgram, name: string): Promise<string | null> {
  const { code, stdout } = await run(['cat', `${FOLDER}/${name}`]);
  return code === 0 ? stdout.trim() : null;
}

/**
 * Sets it.
 * @throws HeadgateError `sysctl-failed` (stage `apply`)
 */
export async function writeSysctl(run: RunProgram, name: string, value: string): Promise<void> {
  const { code, stderr } = await run(['tee', `${FOLDER}/${name}`], { input: value });
  if (code === 0) return;
  throw new HeadgateError('sysctl-failed', 'apply', `${FOLDER}/${name} could not be set to ${value}: ${errorMessage(stderr)}`);
}
