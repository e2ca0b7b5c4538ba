// Which UDP service addresses the rules that were read back serve. After a start nobody remembers them, and a service may
// have been deleted meanwhile: its flows are to be cleaned all the same.

import { type Rule, TABLES } from '../../shared/iptables/ruleset.ts';
import { joinAddress } from './conntrack.ts';
import type { SavedRules } from './save.ts';

const SERVED = /^(?:-d (\S+?)\/(?:32|128) )?-p udp .*--dport (\d+)\b.* -j KUBE-(?:SVC|SVL|EXT|FW)-\S+$/;

/** `address:port` of each, IPv6 in brackets; a node port, whose rule names no address, is one at every address: `0.0.0.0:30053`. */
export function udpAddresses({ family, tables }: SavedRules): string[] {
  const every = family === 'IPv4' ? '0.0.0.0' : '::';
  const found: string[] = [];
  for (const table of TABLES) {
    for (const rules of tables[table].chains.values()) found.push(...rules.flatMap((rule) => servedAt(rule, every)));
  }
  return found;
}

function servedAt(rule: Rule, every: string): string[] {
  if (!rule.includes('-p udp ')) return [];
  const [, address = every, port] = SERVED.exec(rule) ?? [];
  const place = joinAddress(address, port);
  return place === null ? [] : [place];
}
