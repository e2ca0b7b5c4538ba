// Run as a process of its own by killed.test.ts: writes two rulesets in a namespace and is killed (kill -9, by itself) right before the
// commit of the second one that it was told.

import type { ProgramOptions } from '../../../sidecar/run-program.ts';
import { NodeRules } from '../../../sidecar/iptables/node-rules.ts';
import { runProgram } from '../../../sidecar/run-program.ts';
import { never, quiet, rulesetsOf, type TestService } from './rulesets.ts';

interface Order {
  readonly namespace: string;
  readonly lock: string;
  readonly first: readonly TestService[];
  readonly second: readonly TestService[];
  /** 0: before the first commit; as many as there are commits: after all of them. */
  readonly commits: number;
}

const order: Order = JSON.parse(process.argv[2] ?? '');
let left = Number.POSITIVE_INFINITY;

function run(argv: readonly string[], options: ProgramOptions = {}): ReturnType<typeof runProgram> {
  const commits = typeof options.input === 'string' && options.input.includes('\n:KUBE-');
  if (commits && left-- === 0) process.kill(process.pid, 'SIGKILL');
  return runProgram(['ip', 'netns', 'exec', order.namespace, ...argv], { ...options, environment: { XTABLES_LOCKFILE: order.lock } });
}

const rules = new NodeRules({ run, logger: quiet });
await rules.write(rulesetsOf(order.first), never);
left = order.commits;
await rules.write(rulesetsOf(order.second), never);
