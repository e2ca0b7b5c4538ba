// `headgate rollback` and `headgate resume`: hold a version's configuration, and let it go.

import { resume as resumeHead, rollback as rollBack } from '../../../functions/operate.ts';
import type { Role } from '../../../shared/role.ts';
import { author } from '../flags.ts';
import { openExistingStore } from '../open.ts';
import { printJson, printLine } from '../print.ts';

export interface RollbackFlags {
  readonly reason: string;
  readonly roles: readonly Role[];
  readonly freeze?: boolean;
  readonly store?: string;
  readonly json?: boolean;
}

export async function rollback(version: number, flags: RollbackFlags): Promise<void> {
  const { reason, roles, freeze = false } = flags;
  const store = await openExistingStore(flags.store);
  const head = await rollBack({ store, version, roles, freeze, reason, author: author() });
  if (flags.json) return printJson(head);
  const what = freeze
    ? `version ${version}, frozen`
    : `version ${head.target.number}: the configuration of ${version} with the present endpoints`;
  printLine(`Sequence ${head.sequence} runs ${what} (${roles.join(', ')}). It holds until \`headgate resume\`.`);
}

export interface ResumeFlags {
  readonly reason: string;
  readonly store?: string;
  readonly json?: boolean;
}

export async function resume(flags: ResumeFlags): Promise<void> {
  const store = await openExistingStore(flags.store);
  const { resumed, head } = await resumeHead({ store, reason: flags.reason, author: author() });
  if (flags.json) return printJson({ resumed, head });
  if (!resumed) return printLine(`Nothing was held: version ${head.target.number} is the cluster's own.`);
  printLine(`Sequence ${head.sequence} runs version ${head.target.number}: the cluster's own configuration.`);
}
