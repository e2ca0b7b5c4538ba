// The text of an offer. Nodes that are told the same are told it with the same text, made once: most of a fleet holds the same
// base, and a list can have tens of thousands of files.

import type { Digest } from '../shared/digest.ts';
import { canonicalJson } from '../shared/json.ts';
import type { FileList } from '../shared/protocol.ts';
import type { Role } from '../shared/role.ts';
import type { HeadSource, Offering, RoleFiles } from './head-source.ts';

const made = new WeakMap<Offering, Map<string, string>>();

/**
 * The offer for a node of these roles.
 * @param baseOf content digest of the list that the node holds for a role, null: none; bases that are not known here are passed over
 */
export function offerText(
  offering: Offering,
  roles: readonly Role[],
  baseOf: (role: Role) => Digest | null,
  source: Pick<HeadSource, 'listOf'>,
): string {
  const bases = roles.map((role) => {
    const base = baseOf(role);
    return { role, base: base !== null && source.listOf(role, base) !== null ? base : null };
  });
  const texts = made.get(offering) ?? new Map<string, string>();
  made.set(offering, texts);
  const key = canonicalJson(bases);
  const text = texts.get(key) ?? canonicalJson({ type: 'offer', head: offering.revision.text, files: lists(offering, bases, source) });
  texts.set(key, text);
  return text;
}

function lists(
  offering: Offering,
  bases: readonly { readonly role: Role; readonly base: Digest | null }[],
  source: Pick<HeadSource, 'listOf'>,
): Record<string, FileList> {
  return Object.fromEntries(
    bases.map(({ role, base }) => [role, listAgainst(offering.lists[role], base, base === null ? null : source.listOf(role, base))]),
  );
}

/** A role's list as sent: the whole of it, or what changes against a base that the node holds. */
function listAgainst(list: RoleFiles, content: Digest | null, base: RoleFiles | null): FileList {
  if (base === null) return { base: null, put: list, remove: [] };
  const put = Object.entries(list).filter(([path, file]) => base[path]?.digest !== file.digest);
  return { base: content, put: Object.fromEntries(put), remove: Object.keys(base).filter((path) => list[path] === undefined) };
}
