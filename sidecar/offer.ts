// What an offer means, checked: the head is of the store that the node follows and not older than what it has seen, and the
// file lists are the ones that the head names. Pure.

import { contentDigest, type NodeFile } from '../shared/manifest.ts';
import type { Digest } from '../shared/digest.ts';
import { HeadgateError } from '../shared/error.ts';
import { type Head, parseHead } from '../shared/head.ts';
import type { FileList, Offer } from '../shared/protocol.ts';
import { type Role, roleOfPath } from '../shared/role.ts';
import type { Seen } from './last-known-good.ts';

export type RoleFiles = Readonly<Record<string, NodeFile>>;

export interface AcceptedOffer {
  readonly head: Head;
  readonly lists: ReadonlyMap<Role, RoleFiles>;
}

/**
 * Reads an offer for these roles.
 * @param listOf a complete list that the node holds, by role and content digest: the base of a delta
 * @throws HeadgateError (stage `verify`) `bad-head`, `other-store`, `older-head`, `bad-list`
 */
export function readOffer(
  offer: Offer,
  roles: readonly Role[],
  seen: Seen | null,
  listOf: (role: Role, content: Digest) => RoleFiles | null,
): AcceptedOffer {
  const head = parseHead(offer.head);
  if (seen !== null && head.store !== seen.store) {
    throw new HeadgateError(
      'other-store',
      'verify',
      `the host offers a head of store ${head.store}, and this node follows ${seen.store}; point it at its store, or start with an empty --state`,
    );
  }
  if (seen !== null && head.sequence < seen.sequence) {
    throw new HeadgateError(
      'older-head',
      'verify',
      `the host offers sequence ${head.sequence}, older than ${seen.sequence}, which was seen`,
    );
  }
  const lists = new Map(roles.map((role) => [role, resolveList(role, offer.files[role], head.target.content[role], listOf)]));
  return { head, lists };
}

function resolveList(
  role: Role,
  list: FileList | undefined,
  content: Digest,
  listOf: (role: Role, content: Digest) => RoleFiles | null,
): RoleFiles {
  if (list === undefined) throw badList(role, 'it is not there');
  const base = list.base === null ? {} : listOf(role, list.base);
  if (base === null) throw badList(role, 'its base is not held here');
  const removed = new Set(list.remove);
  const kept = Object.entries(base).filter(([path]) => !removed.has(path));
  const files = Object.fromEntries([...kept, ...Object.entries(list.put)]);
  if (Object.keys(files).some((path) => roleOfPath(path) !== role)) throw badList(role, 'it names files of something else');
  if (contentDigest(files) !== content) throw badList(role, 'it is not the one that the head names');
  return files;
}

function badList(role: Role, why: string): HeadgateError {
  return new HeadgateError('bad-list', 'verify', `the list of ${role} files that the host offers is not accepted: ${why}`);
}
