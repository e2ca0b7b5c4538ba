// What kube-proxy leaves on a node that we do not write ourselves: the chains of its userspace mode, gone from Kubernetes since
// 1.26, which would answer before ours on a node that was upgraded in place; those of its older releases; its canaries.

import type { Family } from '../../shared/endpoint.ts';
import { isOwnChain } from '../../shared/iptables/chain-names.ts';
import type { RunProgram } from '../run-program.ts';
import { planRemoval } from './plan.ts';
import { restore } from './restore.ts';
import { type SavedRules, SaveReader } from './save.ts';
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

/** What is left of the others in one family. */
export interface LeftOvers {
  readonly userspace: SavedRules;
  readonly mangleCanary: boolean;
}

/** Finds them in what the tool saves. */
export class LeftOverReader {
  readonly #userspace: SaveReader;
  #table = '';
  #mangleCanary = false;

  constructor(family: Family) {
    this.#userspace = new SaveReader(family, (chain) => USERSPACE.has(chain));
  }

  line(line: string): void {
    this.#userspace.line(line);
    if (line.startsWith('*')) this.#table = line;
    if (this.#table === '*mangle' && line.startsWith(`:${CANARY} `)) this.#mangleCanary = true;
  }

  leftOvers(): LeftOvers {
    return { userspace: this.#userspace.rules(), mangleCanary: this.#mangleCanary };
  }
}

/** Removes them from one family. Throws as `restore` does. */
export async function removeLeftOvers(run: RunProgram, tool: Tool, family: Family, { userspace, mangleCanary }: LeftOvers): Promise<void> {
  for (const change of planRemoval(userspace)) await restore(run, tool, family, change, 'partial');
  if (mangleCanary) {
    const argv = [programName(tool.backEnd, family, 'restore'), '--noflush', '-w', '5'];
    await run(argv, { input: `*mangle\n-X ${CANARY}\nCOMMIT\n` });
  }
}

/** True for what is saved of a family in which kube-proxy serves. */
export function hasCanary(saved: string): boolean {
  return saved.includes(`\n:${CANARY} `);
}
