// What this node's kernel and tool can do, as far as rules depend on it.

import type { NodeKernel } from '../../shared/iptables/node-chains.ts';
import type { RunProgram } from '../run-program.ts';
import { readSysctl } from './sysctl.ts';
import { isNewerOrSame, type Tool } from './tool.ts';

/** Read for each content, for an operator may change it. A kernel that did not load conntrack yet will be strict when it does. */
export async function readKernel(run: RunProgram, tool: Tool): Promise<NodeKernel> {
  const liberal = await readSysctl(run, 'net/netfilter/nf_conntrack_tcp_be_liberal');
  return { conntrackLiberal: liberal === '1', randomFully: isNewerOrSame(tool.version, '1.6.2') };
}
