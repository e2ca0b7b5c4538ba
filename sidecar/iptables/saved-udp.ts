// Which UDP service addresses the rules that were read back serve. After a start nobody remembers them, and a service may
// have been deleted meanwhile: its flows are to be cleaned all the same.

import { TABLES } from '../../shared/iptables/ruleset.ts';
import { joinAddress } from './conntrack.ts';
import type { SavedRules } from './save.ts';

const SERVED = /^(?:-d (\S+?)\/(?:32|128) )?-p udp .*--dport (\d+)\b.* -j KUBE-(?:SVC|SVL|EXT|FW)-\S+$/;

/** `address:port` of each, IPv6 in brackets; a node port, whose rule names no address, is one at every address: `0.0.0.0:30053`. */
export function udpAddresses({ family, tables }: SavedRules): string[] {
  const every = family === 'IPv4' ? '0.0.0.0' : '::';
  const rules = TABLES.flatMap((table) => [...tables[table].chains.values()].flat());
  return rules.flatMap((rule) => {
    const [, address = every, port] = SERVED.exec(rule) ?? [];
    return joinAddress(address, port) ?? [];
  });
}
