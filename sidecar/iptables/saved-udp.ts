// Which UDP service addresses the rules that were read back serve. After a start nobody remembers them, and a service may
// have been deleted meanwhile: its flows are to be cleaned all the same.

import { TABLES } from '../../shared/iptables/ruleset.ts';
import { joinAddress } from './conntrack.ts';
import type { SavedRules } from './save.ts';

const SERVED = /^(?=.*-p udp )-d (\S+?)\/(?:32|128) .*--dport (\d+)\b.* -j KUBE-(?:SVC|SVL|EXT|FW)-\S+$/;

/** `address:port` of each, IPv6 in brackets. Node ports have no address in the rules and are not among them. */
export function udpAddresses({ tables }: SavedRules): string[] {
  const rules = TABLES.flatMap((table) => [...tables[table].chains.values()].flat());
  return rules.flatMap((rule) => {
    const [, address, port] = SERVED.exec(rule) ?? [];
    return joinAddress(address, port) ?? [];
  });
}
