// How admission says what it left out of an object.

import type { Rejection } from '../../shared/rejection.ts';

/** Reports that one field of the object at hand, or an item of it, is left out. */
export type Report = (field: string, reason: string, message: string) => void;

/** A report about one service that adds to these rejections. */
export function serviceReport(service: { readonly namespace: string; readonly name: string }, rejections: Rejection[]): Report {
  return settingReport('Service', service, rejections);
}

/** A report about one object of any kind. Cluster-wide objects have an empty namespace. */
export function settingReport(
  kind: string,
  object: { readonly namespace: string; readonly name: string },
  rejections: Rejection[],
): Report {
  const { namespace, name } = object;
  return (field, reason, message) => {
    rejections.push({ kind, namespace, name, scope: 'setting', field, reason, message });
  };
}

/** Text from the cluster as it stands in a message: quoted, on one line, cut. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > LONGEST ? `${text.slice(0, LONGEST)}...` : text);
}

const LONGEST = 80;
