// `headgate diff`: what differs between two versions, in the words of the cluster.

import { diffVersions, type EndpointChange, type FieldChange, type ObjectChange, type VersionDiff } from '../../../functions/diff.ts';
import { canonicalJson } from '../../../shared/json.ts';
import type { Rejection } from '../../../shared/rejection.ts';
import { openExistingStore } from '../open.ts';
import { printJson, printLine } from '../print.ts';

export interface DiffFlags {
  readonly store?: string;
  readonly json?: boolean;
}

export async function diff(from: number, to: number, flags: DiffFlags): Promise<void> {
  const found = await diffVersions(await openExistingStore(flags.store), from, to);
  if (flags.json) return printJson(found);
  const lines = diffLines(found);
  if (lines.length === 0) return printLine(`Versions ${from} and ${to} hold the same.`);
  for (const line of lines) printLine(line);
}

/** One line for each thing that differs; fields of a changed object are indented below it. */
export function diffLines(found: VersionDiff): string[] {
  const lines = [
    ...found.options.map((change) => `option ${fieldText(change)}`),
    ...found.routes.flatMap((change) => objectLines('route', change)),
    ...found.services.flatMap((change) => objectLines('service', change)),
    ...found.endpoints.flatMap(endpointLines),
    ...found.nodes.flatMap((change) => objectLines('node', change)),
    ...found.certificates.map(({ path, change }) => `certificate ${path.replace(/^router\//, '')} ${change}`),
    ...found.rejections.added.map((rejection) => `rejected ${rejectionText(rejection)}`),
    ...found.rejections.removed.map((rejection) => `no longer rejected ${rejectionText(rejection)}`),
  ];
  return lines.length === 0 && found.files.length > 0 ? found.files.map(({ path, change }) => `file ${path} ${change}`) : lines;
}

function objectLines(kind: string, { name, change, fields }: ObjectChange): string[] {
  return [`${kind} ${name} ${change}`, ...fields.map((field) => `    ${fieldText(field)}`)];
}

function fieldText({ field, from, to }: FieldChange): string {
  return `${field}: ${valueText(from)} -> ${valueText(to)}`;
}

/** A template's text is a value too; `--json` has all of it. */
const LONGEST_VALUE = 100;

function valueText(value: FieldChange['from']): string {
  const text = value === undefined ? 'none' : canonicalJson(value);
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}... (${text.length} characters)`;
}

function endpointLines({ service, added, removed, changed }: EndpointChange): string[] {
  return [
    ...added.map((endpoint) => `endpoint of ${service} added: ${endpoint}`),
    ...removed.map((endpoint) => `endpoint of ${service} gone: ${endpoint}`),
    ...changed.map((endpoint) => `endpoint of ${service} changed: ${endpoint}`),
  ];
}

function rejectionText({ kind, namespace, name, reason, message }: Rejection): string {
  return `${kind} ${namespace}/${name}: ${reason}: ${message}`;
}
