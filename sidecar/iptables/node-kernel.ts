// What this node's kernel and tool can do, as far as rules depend on it.

import type { NodeKernel } from '../../shared/iptables/node-chains.ts';
import type { RunProgram } from '../run-program.ts';
import { isNewerOrSame, type Tool } from './tool.ts';

/** Read for each content, for an operator may change it. A kernel that did not load conntrack yet is as strict as it will be then. */
export async function readKernel(run: RunProgram, tool: Tool, signal: AbortSignal): Promise<NodeKernel> {
  const { stdout } = await run(['sysctl', '-n', '-e', 'net.netfilter.nf_conntrack_tcp_be_liberal'], { signal });
  return { conntrackLiberal: stdout.trim() === '1', randomFully: isNewerOrSame(tool.version, '1.6.2') };
}
