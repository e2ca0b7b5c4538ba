// `headgate render`: computes offline what one node would run. The same code as the functions' and the sidecar's, end to end.

import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { directoryCluster } from '../../../functions/cluster/directory.ts';
import { admit, compute } from '../../../functions/compute.ts';
import { isOurDefaultCertificate, OUR_CERTIFICATE_SERVES } from '../../../functions/router/default-certificate.ts';
import { expiredCertificates } from '../../../functions/router/expired-certificates.ts';
import { errnoCode, HeadgateError } from '../../../shared/error.ts';
import { makeFolder } from '../../../shared/make-folder.ts';
import type { Files } from '../../../shared/files.ts';
import { sortRejections } from '../../../shared/rejection.ts';
import { composeProxy } from '../../../shared/iptables/compose.ts';
import { restoreFileText } from '../../../shared/iptables/restore-text.ts';
import { roleOfPath } from '../../../shared/role.ts';
import { composeRouter } from '../../../shared/router/compose.ts';
import { isSecretPath } from '../../../shared/seal.ts';
import { readShards } from '../../../shared/shard.ts';
import { compareText } from '../../../shared/json.ts';
import { manifestPath } from '../cluster.ts';
import { readOptions } from '../open.ts';
import { printRejections, printWarning } from '../print.ts';

export interface RenderFlags {
  readonly cluster: string;
  readonly node: string;
  readonly out: string;
  readonly options?: string;
}

/** Everything that `render` writes stands below these. */
const OUTPUT = ['router', 'iptables', 'rejections.json'] as const;

export async function render(flags: RenderFlags): Promise<void> {
  if (flags.out === '') throw new HeadgateError('bad-out', 'usage', '--out is empty; name a folder to write to');
  const options = await readOptions(flags.options);
  const others = flags.options === undefined ? [flags.out] : [flags.out, flags.options];
  const state = await directoryCluster(manifestPath(flags.cluster), process.stdin, others).read();
  const { configuration, secrets } = admit(state, options);
  const { files, rejections: leftOut } = compute(configuration, state.endpoints, state.nodes);
  const expired = expiredCertificates(state.routes, { configuration: configuration.router, secrets }, Date.now());
  const rejections = sortRejections([...leftOut, ...expired]);
  const all: Files = new Map([...files, ...secrets]);
  const written = new Map<string, string | Uint8Array>([
    ...composeRouter(routerFiles(all)),
    ...iptablesFiles(all, flags.node),
    ['router/routes.json', jsonText(routesOf(files))],
    ['rejections.json', jsonText(rejections)],
  ]);
  await replaceOutput(flags.out, written);
  printRejections(rejections);
  if (isOurDefaultCertificate(configuration.router.defaultCertificate)) printWarning(OUR_CERTIFICATE_SERVES);
}

function routerFiles(files: Files): Files {
  return new Map([...files].filter(([path]) => roleOfPath(path) === 'router'));
}

function iptablesFiles(files: Files, node: string): [string, string][] {
  const { rulesets } = composeProxy(files, node);
  return [
    ['iptables/ipv4.rules', restoreFileText(rulesets.IPv4)],
    ['iptables/ipv6.rules', restoreFileText(rulesets.IPv6)],
  ];
}

interface NamedRoute {
  readonly namespace: string;
  readonly name: string;
}

function routesOf(files: Files): NamedRoute[] {
  return readShards<NamedRoute>(files, 'routes').sort((a, b) => compareText(a.namespace, b.namespace) || compareText(a.name, b.name));
}

function jsonText(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** Writes the output, in place of an earlier one. A folder that holds something else under our names is left as it is. */
async function replaceOutput(out: string, files: ReadonlyMap<string, string | Uint8Array>): Promise<void> {
  try {
    const present = new Set(await readdir(out).catch((error: unknown) => (errnoCode(error) === 'ENOENT' ? [] : Promise.reject(error))));
    if (!present.has('rejections.json') && OUTPUT.some((name) => present.has(name))) {
      throw new HeadgateError(
        'not-our-output',
        'usage',
        `--out ${out} holds a router or iptables folder that render did not write; choose an empty folder`,
      );
    }
    await makeFolder(out);
    for (const name of OUTPUT) await rm(join(out, name), { recursive: true, force: true });
    for (const [path, content] of files) {
      const file = join(out, path);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, content, { mode: isSecretPath(path) ? 0o600 : 0o644 });
    }
  } catch (cause) {
    if (cause instanceof HeadgateError) throw cause;
    throw new HeadgateError(
      'cannot-write',
      'keep',
      `cannot write to --out ${out}: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    );
  }
}
