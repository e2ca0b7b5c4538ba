// Removes what the userspace mode of kube-proxy left behind: gone from Kubernetes since 1.26, but a node that was upgraded
// in place may still have its chains, and they would answer before ours.

import type { Family } from '../../shared/endpoint.ts';
import type { RunProgram } from '../run-program.ts';
import { planRemoval } from './plan.ts';
import { restore } from './restore.ts';
import { parseSave } from './save.ts';
import type { Tool } from './tool.ts';

const CHAINS: ReadonlySet<string> = new Set([
  'KUBE-PORTALS-CONTAINER',
  'KUBE-PORTALS-HOST',
  'KUBE-NODEPORT-CONTAINER',
  'KUBE-NODEPORT-HOST',
  'KUBE-NODEPORT-NON-LOCAL',
]);

/** Removes them from one family, given what was saved of it. Throws as `restore` does. */
export async function removeUserspaceProxy(run: RunProgram, tool: Tool, family: Family, saved: string): Promise<void> {
  const leftOver = parseSave(family, saved, (chain) => CHAINS.has(chain));
  for (const change of planRemoval(leftOver)) await restore(run, tool, family, change, 'partial');
}
