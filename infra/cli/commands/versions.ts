// `headgate versions`: the history, newest first.

import { listVersions, type ListedVersion } from '../../../functions/operate.ts';
import { openExistingStore } from '../open.ts';
import { printJson, printLine, printTable } from '../print.ts';

export interface VersionsFlags {
  readonly store?: string;
  readonly limit: number;
  readonly json?: boolean;
}

export async function versions(flags: VersionsFlags): Promise<void> {
  const listed = await listVersions(await openExistingStore(flags.store), flags.limit);
  if (flags.json) return printJson(listed);
  if (listed.length === 0) return printLine('Nothing was published yet.');
  printTable([
    ['VERSION', 'SEQUENCE', 'CREATED', 'TRIGGER', 'AUTHOR', 'ROUTES', 'SERVICES', 'SERVERS', 'REJECTIONS', 'CONFIGURATION', 'STATE'],
    ...listed.map(row),
  ]);
}

function row(version: ListedVersion): string[] {
  const { routes, services, servers, rejections } = version.summary;
  return [
    `${version.number}`,
    `${version.sequence}`,
    version.created,
    version.reason === version.trigger ? version.trigger : `${version.trigger}: ${version.reason}`,
    version.author,
    ...[routes, services, servers, rejections].map(String),
    version.configurationOf === null ? 'own' : `of ${version.configurationOf}`,
    version.marks.join(' '),
  ];
}
