// `headgate show`: what a version holds, or one file of it.

import { showFile, showVersion } from '../../../functions/operate.ts';
import { openExistingStore } from '../open.ts';
import { printJson, printLine, printTable, sortedKeys } from '../print.ts';

export interface ShowFlags {
  readonly store?: string;
  readonly json?: boolean;
}

export async function show(version: number, path: string | undefined, flags: ShowFlags): Promise<void> {
  const store = await openExistingStore(flags.store);
  if (path !== undefined) {
    const bytes = await showFile(store, version, path);
    if (flags.json) return printJson({ version, path, content: Buffer.from(bytes).toString('utf8') });
    process.stdout.write(bytes);
    return;
  }
  const shown = await showVersion(store, version);
  if (flags.json) return printJson({ ...shown.record, files: shown.files });
  const { record, files } = shown;
  const { routes, services, servers, rejections } = record.summary;
  const origin = record.configurationOf === null ? 'the cluster' : `version ${record.configurationOf}, put back`;
  printLine(
    `Version ${record.number}, sequence ${record.sequence}, ${record.created}, by ${record.author} (${record.trigger}${record.reason === record.trigger ? '' : `: ${record.reason}`})`,
  );
  printLine(`Configuration of ${origin}: ${routes} routes, ${services} services, ${servers} servers, ${rejections} rejections`);
  printLine('');
  printTable([
    ['FILE', 'BYTES', 'SHA256'],
    ...sortedKeys(files).map((name) => [name, `${files[name]?.size ?? 0}`, files[name]?.digest.slice(0, 12) ?? '']),
  ]);
}
