// The objects without a namespace: a Node (`v1`) and a Namespace (`v1`), projected.

import { type Fields, objects, optionalObject, optionalText, requiredText, texts } from './fields.ts';
import { readLabels, readName } from './metadata.ts';
import type { ClusterNode, Namespace } from './objects.ts';

/** Throws WrongField. */
export function projectNode(whole: Fields): ClusterNode {
  const spec = optionalObject(whole, 'spec');
  const status = optionalObject(whole, 'status');
  return {
    name: readName(whole),
    labels: readLabels(whole),
    addresses:
      status === null
        ? []
        : objects(status, 'addresses').map((entry) => ({ type: requiredText(entry, 'type'), address: requiredText(entry, 'address') })),
    podCIDRs: spec === null ? [] : readPodCIDRs(spec),
  };
}

/** Throws WrongField. */
export function projectNamespace(whole: Fields): Namespace {
  return { name: readName(whole), labels: readLabels(whole) };
}

function readPodCIDRs(spec: Fields): readonly string[] {
  const single = optionalText(spec, 'podCIDR');
  const all = texts(spec, 'podCIDRs');
  return all.length === 0 && single !== null ? [single] : all;
}
