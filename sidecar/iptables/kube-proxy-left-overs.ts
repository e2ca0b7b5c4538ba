// What kube-proxy leaves on a node that we do not write ourselves: the chains of its userspace mode, gone from Kubernetes since
// 1.26, which would answer before ours on a node that was upgraded in place; those of its older releases; its canaries.

import type { Family } from '../../shared/endpoint.ts';
import { isOwnChain } from '../../shared/iptables/chain-names.ts';
import type { RunProgram } from '../run-program.ts';
import { planRemoval } from './plan.ts';
import { restore } from './restore.ts';
import { parseSave } from './save.ts';
import { programName, type Tool } from './tool.ts';

const USERSPACE: ReadonlySet<string> = new Set([
  'KUBE-PORTALS-CONTAINER',
  'KUBE-PORTALS-HOST',
  'KUBE-NODEPORT-CONTAINER',
  'KUBE-NODEPORT-HOST',
  'KUBE-NODEPORT-NON-LOCAL',
]);
/** Kept in nat, filter and mangle, so that kube-proxy notices when somebody flushes the tables. */
const CANARY = 'KUBE-PROXY-CANARY';
/** Local policies before 1.24; their rules refer to chains of services that are ours now. */
const OLD_LOCAL = /^KUBE-XLB-[A-Z2-7]{16}$/;

/** True for our own chains and those that are only in the way of them once ours are written. */
export function isOwnOrStale(chain: string): boolean {
  return isOwnChain(chain) || chain === CANARY || OLD_LOCAL.test(chain);
}

/** Removes the others from one family, given what was saved of it. Throws as `restore` does. */
export async function removeLeftOvers(run: RunProgram, tool: Tool, family: Family, saved: string): Promise<void> {
  const userspace = parseSave(family, saved, (chain) => USERSPACE.has(chain));
  for (const change of planRemoval(userspace)) await restore(run, tool, family, change, 'partial');
  if (hasMangleCanary(saved)) {
    const argv = [programName(tool.backEnd, family, 'restore'), '--noflush', '-w', '5'];
    await run(argv, { input: `*mangle\n-X ${CANARY}\nCOMMIT\n` });
  }
}

/** True for what is saved of a family in which kube-proxy serves. */
export function hasCanary(saved: string): boolean {
  return saved.includes(`\n:${CANARY} `);
}

function hasMangleCanary(saved: string): boolean {
  const [, mangle = ''] = saved.split(/^\*mangle$/m);
  const [table = ''] = mangle.split(/^COMMIT$/m);
  return hasCanary(table);
}
