// Prints one rule. Rules are written as iptables-save prints them (addresses with their length, the order of the
// arguments), so that most of what is read back equals what was written. Every value goes through `argument`.

import type { Protocol } from '../endpoint.ts';
import { familyOf } from './addresses.ts';
import type { Rule } from './ruleset.ts';

/** What a rule says, in the order in which it is printed. */
export interface RuleParts {
  /** A CIDR, or an address alone, or `address/mask`. Likewise below. One that is everything is not printed. */
  readonly source?: string;
  readonly notSource?: string;
  readonly destination?: string;
  readonly notDestination?: string;
  readonly protocol?: Protocol;
  /** null: none. */
  readonly comment?: string | null;
  /** Needs the protocol. */
  readonly port?: number | { readonly from: number; readonly to: number };
  /** Further matches: each a list of arguments. */
  readonly matches?: readonly (readonly string[])[];
  /** The target and its arguments. */
  readonly jump: readonly [string, ...string[]];
}

/** A rule's arguments, without `-A CHAIN`. */
export function printRule(parts: RuleParts): Rule {
  const protocol = parts.protocol?.toLowerCase();
  const words = [
    ...address('-s', parts.source),
    ...address('! -s', parts.notSource),
    ...address('-d', parts.destination),
    ...address('! -d', parts.notDestination),
    ...(protocol === undefined ? [] : ['-p', protocol]),
    ...(parts.comment === null || parts.comment === undefined ? [] : ['-m', 'comment', '--comment', comment(parts.comment)]),
    ...(parts.port === undefined || protocol === undefined ? [] : ['-m', protocol, '--dport', portText(parts.port)]),
    ...(parts.matches ?? []).flatMap((match) => match.map(argument)),
    '-j',
    ...parts.jump.map(argument),
  ];
  return words.join(' ');
}

/** The longest comment that the kernel keeps, in bytes. */
const LONGEST_COMMENT = 255;

/**
 * One argument as iptables-restore reads it, whatever the text holds. Its reader ends a line at a line feed, an argument at white
 * space, and inside quotes knows `\` and `"`: what is not plain is quoted, and nothing that could end the quote is kept.
 */
export function argument(text: string): string {
  return PLAIN.test(text) ? text : `"${text.replace(/[^ !#-[\]-~]/g, '?')}"`;
}

const PLAIN = /^[\w!.:,/[\]+-]+$/;

function comment(text: string): string {
  return argument(text.slice(0, LONGEST_COMMENT));
}

function address(option: string, text: string | undefined): string[] {
  if (text === undefined || text.endsWith('/0')) return [];
  const length = familyOf(text) === 'IPv4' ? 32 : 128;
  return [option, argument(text.includes('/') ? text : `${text}/${length}`)];
}

function portText(port: NonNullable<RuleParts['port']>): string {
  return typeof port === 'number' ? String(port) : `${port.from}:${port.to}`;
}
