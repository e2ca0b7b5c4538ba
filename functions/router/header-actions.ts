// spec.httpHeaders.actions: which headers a route may set or delete, and what a value may be made of. What is wrong with one
// action leaves out that action.

import { shown } from '../../shared/rejection.ts';
import type { HeaderAction } from '../cluster/objects.ts';
import type { HeaderEdit } from './configuration.ts';
import type { Problem } from './problem.ts';

export interface HeaderActions {
  /** In their order. */
  readonly edits: readonly HeaderEdit[];
  readonly problems: readonly Problem[];
}

/** A token of RFC 9110: what a header's or a cookie's name is made of. */
export const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

const LONGEST_NAME = 255;
const LONGEST_VALUE = 16_384;

/** Names that routes may not touch: they have annotations of their own or would open holes (as in the field), or they frame the message. */
const FORBIDDEN: ReadonlySet<string> = new Set([
  'strict-transport-security',
  'proxy',
  'cookie',
  'set-cookie',
  'connection',
  'content-length',
  'transfer-encoding',
]);

/**
 * What a value is made of, part by part: a character, `%%`, or `%[...]` of a fetch with converters. A fetch of the other direction is a
 * fatal error to HAProxy (seen on 2.6). Sticky: after a match `lastIndex` stands behind the last part that is understood.
 */
const PARTS = {
  request: /(?:[^%\p{Cc}\p{Cs}]|%%|%\[(?:req\.hdr\([A-Za-z0-9_-]+\)|ssl_c_der)(?:,lower|,base64)*\])*/uy,
  response: /(?:[^%\p{Cc}\p{Cs}]|%%|%\[(?:res\.hdr\([A-Za-z0-9_-]+\)|ssl_c_der)(?:,lower|,base64)*\])*/uy,
};

/** The actions that can be carried out, and what is wrong with the others. */
export function readHeaderActions(actions: readonly HeaderAction[]): HeaderActions {
  const edits: HeaderEdit[] = [];
  const problems: Problem[] = [];
  const seen = { request: 0, response: 0 };
  for (const action of actions) {
    const field = `spec.httpHeaders.actions.${action.direction}[${seen[action.direction]++}]`;
    const edit = readAction(action);
    if (typeof edit !== 'string') edits.push(edit);
    else problems.push({ field, reason: 'InvalidHeaderAction', message: edit });
  }
  return { edits, problems };
}

/** The edit, or in words what is wrong with the action. */
function readAction({ direction, name, action }: HeaderAction): HeaderEdit | string {
  if (name.length > LONGEST_NAME || !TOKEN.test(name)) return `${shown(name)} is not a name of a header`;
  const lowercase = name.toLowerCase();
  if (FORBIDDEN.has(lowercase)) return `the header ${name} may not be changed by a route`;
  if (lowercase === 'host' && !(direction === 'request' && action.type === 'Set')) return 'Host may only be set, and only on requests';
  if (action.type === 'Delete') return { direction, name, action: 'delete' };
  if (action.type !== 'Set' || !('value' in action)) return `${shown(action.type)} is not an action: expected Set or Delete`;
  const flaw = valueFlaw(action.value, direction);
  return flaw === null ? { direction, name, action: 'set', value: action.value } : `the value of ${name} ${flaw}`;
}

function valueFlaw(value: string, direction: HeaderAction['direction']): string | null {
  if (value === '') return 'is empty: use Delete';
  if (Buffer.byteLength(value) > LONGEST_VALUE) return `is longer than ${LONGEST_VALUE} bytes`;
  const parts = PARTS[direction];
  parts.lastIndex = 0;
  parts.test(value);
  if (parts.lastIndex === value.length) return null;
  const fetch = direction === 'request' ? 'req' : 'res';
  const rule = `only %%, %[${fetch}.hdr(NAME)] and %[ssl_c_der] with the converters lower and base64 may follow a %`;
  return value[parts.lastIndex] === '%' ? `is not understood at character ${parts.lastIndex + 1}: ${rule}` : 'holds a control character';
}
