// What is told of an application: to the host as a result, to the operator as a line of the log.

import type { Head } from '../shared/head.ts';
import type { Logger } from '../shared/logger.ts';
import type { Result } from '../shared/protocol.ts';
import type { Role } from '../shared/role.ts';
import type { RoleOutcome } from './role.ts';

/** Longest message of a result, in characters; the protocol's limit. */
const MESSAGE_LIMIT = 4096;

/** The result of bringing a role to what a head names, as of now. */
export function resultOf(role: Role, head: Head, outcome: RoleOutcome): Result {
  return {
    type: 'result',
    role,
    sequence: head.sequence,
    version: head.target.number,
    ...outcome,
    durationMs: Math.round(outcome.durationMs),
    message: outcome.message.slice(0, MESSAGE_LIMIT),
    time: new Date().toISOString(),
  };
}

export function logResult(logger: Logger, { role, version, sequence, outcome, how, stage, message, durationMs }: Result): void {
  const fields = { role, version, sequence, how, stage, durationMs };
  if (outcome === 'applied') logger.info(fields, `${role} runs version ${version}`);
  else logger.error({ ...fields, message }, `${role} ${outcome} version ${version}`);
}
