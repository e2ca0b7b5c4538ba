// HAProxy's own judgement of a generation, before it is switched to.

import { HeadgateError } from '../../shared/error.ts';
import { runProgram } from '../run-program.ts';
import type { InstalledHaproxy } from './capabilities.ts';
import { type Generation, type Generations, LOCAL_CONFIG } from './generations.ts';
import { alertWords } from './words.ts';

const CHECK_MS = 120_000;

/**
 * Runs `haproxy -c` on a generation, once for each version of HAProxy.
 * @throws HeadgateError `configuration-refused` (stage `check`) with HAProxy's words; `check-failed` when it ended without a verdict, as one
 *   does that the kernel kills for memory; as `runProgram` does when it cannot be run
 */
export async function checkGeneration(
  generations: Generations,
  generation: Generation,
  haproxy: InstalledHaproxy,
  signal: AbortSignal,
): Promise<void> {
  if (await generations.isChecked(generation.name, haproxy.version)) return;
  const argv = [haproxy.path, '-c', '-C', generations.folder(generation.name), '-f', LOCAL_CONFIG, '-f', 'config'];
  const { code, stdout, stderr } = await runProgram(argv, { signal, timeoutMs: CHECK_MS });
  const output = `${stdout}\n${stderr}`;
  if (code !== 0 && !output.includes('[ALERT]')) {
    throw new HeadgateError(
      'check-failed',
      'check',
      `${haproxy.path} -c ended with ${code} and no verdict: ${alertWords(output, generation.files)}`,
    );
  }
  if (code !== 0) throw new HeadgateError('configuration-refused', 'check', alertWords(output, generation.files));
  await generations.markChecked(generation.name, haproxy.version);
}
