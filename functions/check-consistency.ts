// The last look before a version is written: every reference in it resolves. What fails here is a fault of ours (or of a custom
// template), never of the cluster, and nothing is published: the head stays on a version that was whole.

import { HeadgateError } from '../shared/error.ts';
import { isSafePath } from '../shared/files.ts';
import type { BackendState } from '../shared/router/state.ts';
import { readShards } from '../shared/shard.ts';

/** Values of maps that are no route's backend: what the base configuration decides by, and its own backend. */
const NO_BACKENDS: ReadonlySet<string> = new Set(['redirect', 'be_https']);

/** Maps whose values name backends. */
const BACKEND_MAPS = ['http', 'https', 'sni'] as const;

/** How many faults the message names. */
const SHOWN = 5;

/**
 * Checks the files of a version against each other: what maps name has a state and a stanza, what the crt-list names has a
 * certificate, paths are safe.
 * @param files what was computed, as text
 * @param secrets paths of the files that come with it: certificates and passwords
 * @throws HeadgateError `inconsistent-version` (stage `compute`) naming what does not resolve
 */
export function checkConsistency(files: ReadonlyMap<string, string | Uint8Array>, secrets: Iterable<string>): void {
  const certificates = new Set(secrets);
  const faults = [...unsafePaths([...files.keys(), ...certificates]), ...unservedNames(files), ...missingCertificates(files, certificates)];
  if (faults.length === 0) return;
  const more = faults.length > SHOWN ? `; and ${faults.length - SHOWN} more` : '';
  throw new HeadgateError(
    'inconsistent-version',
    'compute',
    `nothing is published, because the computed files do not fit together: ${faults.slice(0, SHOWN).join('; ')}${more}. ` +
      'If router.templates is set, check it; else please report this',
  );
}

function unsafePaths(paths: readonly string[]): string[] {
  return paths.filter((path) => !isSafePath(path)).map((path) => `${JSON.stringify(path)} is not a safe path`);
}

function unservedNames(files: ReadonlyMap<string, string | Uint8Array>): string[] {
  const states = new Set(readShards<BackendState>(files, 'router/state').map(({ backend }) => backend));
  const stanzas = new Set(linesBelow(files, 'router/config').flatMap(({ line }) => /^(?:backend|listen) (\S+)/.exec(line)?.[1] ?? []));
  const named = BACKEND_MAPS.flatMap((map) => linesBelow(files, `router/maps/${map}`));
  return [
    ...named.flatMap(({ path, line }) => {
      const value = line.slice(line.indexOf(' ') + 1);
      return states.has(value) || NO_BACKENDS.has(value) ? [] : [`${path} names ${value}, which has no state`];
    }),
    ...[...states].filter((backend) => !stanzas.has(backend)).map((backend) => `router/state holds ${backend}, which has no stanza`),
  ];
}

function missingCertificates(files: ReadonlyMap<string, string | Uint8Array>, certificates: ReadonlySet<string>): string[] {
  const listed = linesBelow(files, 'router/crt-list').map(({ path, line }) => ({ by: path, named: line.split(' ')[0] ?? '' }));
  const verified = readShards<BackendState>(files, 'router/state').flatMap(({ backend, servers }) =>
    [...new Set(servers.map(({ tls }) => tls?.caFile ?? null))].flatMap((named) => (named === null ? [] : [{ by: backend, named }])),
  );
  return [...listed, ...verified].flatMap(({ by, named }) =>
    certificates.has(`router/${named}`) ? [] : [`${by} names router/${named}, which is not in the version`],
  );
}

function linesBelow(files: ReadonlyMap<string, string | Uint8Array>, folder: string): { readonly path: string; readonly line: string }[] {
  return [...files]
    .filter(([path]) => path.startsWith(`${folder}/`))
    .flatMap(([path, content]) =>
      (typeof content === 'string' ? content : Buffer.from(content).toString('utf8'))
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => ({ path, line })),
    );
}
