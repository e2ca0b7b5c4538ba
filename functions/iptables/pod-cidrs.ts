// The networks of the pods, as few CIDRs as cover exactly the same addresses: nodes get theirs from one block, so that
// thousands of them mostly join into a handful, and a rule for each stays affordable.

import { type Cidr, parseCidr } from '../../shared/address.ts';
import { compareText } from '../../shared/json.ts';

/** The fewest CIDRs that hold the same addresses, sorted by their text. */
export function coveringCidrs(cidrs: readonly Cidr[]): string[] {
  const kept = new Map(cidrs.map((cidr) => [cidr.text, cidr]));
  for (let prefix = 128; prefix > 0; prefix--) joinHalves(kept, prefix);
  return [...kept.values()]
    .filter((cidr) => !ancestors(cidr).some(({ text }) => kept.has(text)))
    .map(({ text }) => text)
    .sort(compareText);
}

/** Puts the network of twice the size in the place of two halves of this length. */
function joinHalves(kept: Map<string, Cidr>, prefix: number): void {
  const lonely = new Map<string, Cidr>();
  for (const cidr of [...kept.values()].filter((candidate) => candidate.prefix === prefix)) {
    const parent = parentOf(cidr);
    if (parent === null) continue;
    const sibling = lonely.get(parent.text);
    lonely.set(parent.text, cidr);
    if (sibling === undefined) continue;
    kept.delete(cidr.text);
    kept.delete(sibling.text);
    kept.set(parent.text, parent);
  }
}

function parentOf({ address, prefix }: Cidr): Cidr | null {
  return prefix === 0 ? null : parseCidr(`${address}/${prefix - 1}`);
}

function ancestors(cidr: Cidr): Cidr[] {
  const parent = parentOf(cidr);
  return parent === null ? [] : [parent, ...ancestors(parent)];
}
