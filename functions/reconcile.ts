// Reconcile: make the store's newest version what the cluster says. Reads the head, then the cluster (in this order: whoever
// moves the head in between makes the swap fail, and all is read again), computes, and moves the head if anything differs.
//
//   no pin        one version: the cluster's own
//   a pin         the target keeps the pinned configuration and takes the present endpoints; the cluster's own
//                 configuration gets a number when it changes, and waits
//   a still pin   (both roles frozen) the target stays; the cluster's own version waits, endpoints included
//
// Every new version is a swap of its own.

import { HeadgateError } from '../shared/error.ts';
import type { Head } from '../shared/head.ts';
import type { Logger } from '../shared/logger.ts';
import type { Rejection } from '../shared/rejection.ts';
import { ROLES } from '../shared/role.ts';
import { isSealed, isSecretPath, type SealingKey, sealFile } from '../shared/seal.ts';
import type { HeadMove, VersionDraft, VersionStore } from '../shared/version-store.ts';
import type { ClusterSource } from './cluster/objects.ts';
import { admit as admitCluster, compute as computeFiles } from './compute.ts';
import { type Compute, type Draft, draftConfiguration, heldDraft, isSameAs, isStill, ownDraft, type Present } from './draft.ts';
import type { Options } from './options.ts';
import { readHeld } from './read-configuration.ts';
import { isOurDefaultCertificate } from './router/default-certificate.ts';

export interface ReconcileInput {
  readonly store: VersionStore;
  readonly cluster: ClusterSource;
  readonly options: Options;
  /** What woke us, for the manifest: `webhook`, `resync`, `cli`. */
  readonly trigger: string;
  readonly author: string;
  /** Absent: certificates and passwords are stored in the clear. */
  readonly sealingKey?: SealingKey | undefined;
  readonly logger: Logger;
  readonly signal?: AbortSignal | undefined;
  readonly admit?: typeof admitCluster;
  readonly compute?: Compute;
}

export interface Reconciled {
  /** False: nothing differed and nothing was written. */
  readonly changed: boolean;
  /** As it stands now. */
  readonly head: Head;
  /** The version that nodes run. */
  readonly version: number;
  readonly sequence: number;
  /** Of the cluster's own configuration, whether it runs or waits. */
  readonly rejections: readonly Rejection[];
  /** Likewise: its default certificate is the one that everybody has the key of. */
  readonly ourCertificateServes: boolean;
}

/**
 * Publishes what the cluster says now, if it differs.
 * @throws HeadgateError stage `read-cluster` when the cluster cannot be read completely, `options` or `compute` when it cannot be computed,
 *   `store` or `publish` when it cannot be stored; the head stays
 */
export async function reconcile(input: ReconcileInput): Promise<Reconciled> {
  const { store, signal, logger } = input;
  let rejections: readonly Rejection[] = [];
  let ourCertificateServes = false;
  let changed = false;
  for (;;) {
    let remaining = 0;
    const { moved, head } = await store.move(async (seen) => {
      const present = await readPresent(input);
      const own = ownDraft(present, input.compute ?? computeFiles);
      rejections = own.rejections;
      ourCertificateServes = isOurDefaultCertificate(present.configuration.router.defaultCertificate);
      const [next, ...later] = await planMoves(input, seen?.head ?? null, present, own);
      remaining = later.length;
      return next ?? null;
    }, signal);
    if (head === null)
      throw new HeadgateError('no-versions', 'publish', `${store.objects.url} holds no version after a publish; try again`);
    if (moved) logMove(logger, head.head, rejections.length);
    changed ||= moved;
    if (remaining > 0) continue;
    const { sequence, target } = head.head;
    return { changed, head: head.head, version: target.number, sequence, rejections, ourCertificateServes };
  }
}

async function readPresent(input: ReconcileInput): Promise<Present> {
  const { cluster, options, sealingKey, signal } = input;
  const state = await cluster.read(signal);
  const { configuration, secrets } = (input.admit ?? admitCluster)(state, options);
  const stored = [...secrets].map(
    ([path, content]) => [path, sealingKey === undefined ? content : sealFile(content, sealingKey, path)] as const,
  );
  return { configuration, secrets: new Map(stored), endpoints: state.endpoints, nodes: state.nodes };
}

/** Private keys that were sealed must not be stored in the clear by somebody who forgot the key. */
async function refuseUnsealed({ store, sealingKey, signal }: ReconcileInput, head: Head): Promise<void> {
  if (sealingKey !== undefined) return;
  const { files } = await store.readManifest(head.target, signal);
  const secret = Object.entries(files).find(([path]) => isSecretPath(path))?.[1];
  if (secret === undefined || !isSealed(await store.readFile(secret, signal))) return;
  throw new HeadgateError(
    'store-is-sealed',
    'publish',
    `private keys in ${store.objects.url} are sealed, and would be stored in the clear; give the key with --sealing-key FILE`,
  );
}

/** The moves from a head to where it should be, traffic first. */
async function planMoves(input: ReconcileInput, head: Head | null, present: Present, own: Draft): Promise<HeadMove[]> {
  const { store, author, trigger, signal } = input;
  const version = (draft: Draft, configurationOf: number | null): VersionDraft => {
    return { files: draft.files, trigger, author, configurationOf, summary: draft.summary };
  };
  const move = { author, reason: trigger };
  if (head !== null) await refuseUnsealed(input, head);
  if (head === null || head.pin === null) {
    if (head !== null && isSameAs(own, await store.readManifest(head.target, signal))) return [];
    return [{ ...move, version: version(own, null), target: 'version', newest: 'version', pin: null }];
  }
  const { pin } = head;
  const moves: HeadMove[] = [];
  if (!isStill(pin)) {
    const target = heldDraft(present, await readHeld(store, pin.version, signal), pin, input.compute ?? computeFiles);
    if (!isSameAs(target, await store.readManifest(head.target, signal))) {
      moves.push({ ...move, version: version(target, pin.version), target: 'version', newest: head.newest, pin });
    }
  }
  if (await mustWait(store, head, own, isStill(pin), signal)) {
    moves.push({ ...move, version: version(own, null), target: head.target, newest: 'version', pin });
  }
  return moves;
}

/**
 * Whether the cluster's own version gets a number beside the target: when its configuration is new, and under a still pin when anything is,
 * since no target records the present endpoints then.
 */
async function mustWait(store: VersionStore, head: Head, own: Draft, still: boolean, signal: AbortSignal | undefined): Promise<boolean> {
  if (still) return !isSameAs(own, await store.readManifest(head.newest, signal));
  const configuration = draftConfiguration(own);
  return ROLES.some((role) => configuration[role] !== head.newest.configuration[role]);
}

function logMove(logger: Logger, head: Head, rejections: number): void {
  const { sequence, target, newest, pin } = head;
  const waiting = pin === null ? undefined : newest.number;
  logger.info({ sequence, version: target.number, waiting, rejections }, 'published');
}
