// What it costs to start a command that does nothing.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { medians, ROOT, type Row, seconds } from './subject.ts';

export async function measureStart(progress: (what: string) => void): Promise<Row[]> {
  const launched = await medians(async (turn) => (progress(`launcher ${turn}`), startOf('infra/cli/headgate.mjs')));
  const sidecar = await medians(async (turn) => (progress(`sidecar ${turn}`), startOf('dist/sidecar.mjs')));
  return [seconds('start of `headgate --version`', launched.cpu), seconds('start of `sidecar.mjs --version`', sidecar.cpu)];
}

/** CPU time of the shell's children, as its `times` prints it on the second line: `0m0.04s 0m0.01s`. */
async function startOf(program: string): Promise<{ readonly cpu: number }> {
  const line = '"$0" "$1" --version >/dev/null && times';
  const { stdout } = await promisify(execFile)('sh', ['-c', line, process.execPath, program], { cwd: ROOT });
  const spans = [...(stdout.split('\n')[1] ?? '').matchAll(/(\d+)m([\d.]+)s/g)];
  return { cpu: spans.reduce((sum, [, minutes, rest]) => sum + Number(minutes) * 60 + Number(rest), 0) };
}
