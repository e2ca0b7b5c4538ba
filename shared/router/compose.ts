// From the shards of a version to the files that HAProxy reads, and to the backends that a plan compares. Pure; used by
// the sidecar and by `render`, so that both give the same files.

import type { Files } from '../files.ts';
import { HeadgateError } from '../error.ts';
import { compareText } from '../json.ts';
import { readShards } from '../shard.ts';
import { quoted } from './escape.ts';
import { serverLine } from './server-line.ts';
import type { BackendState } from './state.ts';

const MAPS: readonly string[] = ['certificate', 'http', 'https', 'sni'];

/** The line of a stanza that stands for its servers. No escaping function lets text begin a line, so nothing else looks like it. */
export function serversPlaceholder(backend: string): string {
  return `  # servers of ${backend}`;
}

/** The words that stand for a secret in the base. Not in quotes, where text of others is. */
export function secretPlaceholder(name: string): string {
  return `<secret ${name}>`;
}

/**
 * The files of a node's folder `router/`, as `haproxy -f config` with that working directory serves them. Maps and the
 * crt-list are there even when empty; `router/secrets/*` are filled in and left out; files of no router are left out.
 * @throws HeadgateError `secret-missing` (stage `verify`) when a secret that the configuration names is not among the files
 */
export function composeRouter(files: Files): Map<string, string | Uint8Array> {
  const servers = serverLines(readBackendStates(files));
  const composed = new Map<string, string | Uint8Array>();
  for (const [path, content] of files) {
    if (path === BASE) composed.set(path, fillSecrets(textOf(content), files));
    else if (path.startsWith('router/config/')) composed.set(path, fillServers(textOf(content), servers));
    else if (path.startsWith('router/') && !/^router\/(?:maps|crt-list|secrets)\//.test(path)) composed.set(path, content);
  }
  for (const map of mapNames(files)) composed.set(`router/maps/${map}.map`, joinShards(files, `router/maps/${map}`));
  composed.set('router/crt-list/https.list', joinShards(files, 'router/crt-list'));
  return new Map([...composed].sort(([a], [b]) => compareText(a, b)));
}

/** The backends by name. */
export function readBackendStates(files: Files): Map<string, BackendState> {
  return new Map(readShards<BackendState>(files, 'router/state').map((state) => [state.backend, state]));
}

const BASE = 'router/config/00-base.cfg';

function mapNames(files: Files): string[] {
  const found = [...files.keys()].flatMap((path) => /^router\/maps\/([^/]+)\//.exec(path)?.[1] ?? []);
  return [...new Set([...MAPS, ...found])].sort(compareText);
}

function joinShards(files: Files, folder: string): string {
  const paths = [...files.keys()].filter((path) => path.startsWith(`${folder}/`)).sort(compareText);
  return paths.map((path) => textOf(files.get(path) ?? '')).join('');
}

function serverLines(states: ReadonlyMap<string, BackendState>): Map<string, string> {
  return new Map(
    [...states.values()].map(({ backend, servers }) => [
      backend,
      servers.map((server) => `  server ${serverLine(server, 'configuration')}\n`).join(''),
    ]),
  );
}

function fillServers(text: string, lines: ReadonlyMap<string, string>): string {
  return text.replaceAll(/^[ \t]*# servers of (\S+)[ \t]*\n/gm, (_, backend: string) => lines.get(backend) ?? '');
}

function fillSecrets(text: string, files: Files): string {
  return text.replaceAll(/<secret ([A-Za-z0-9._-]+)>/g, (_, name: string) => {
    const secret = files.get(`router/secrets/${name}`);
    if (secret !== undefined) return quoted(textOf(secret));
    throw new HeadgateError('secret-missing', 'verify', `the configuration needs the secret ${name}, which this version does not hold`);
  });
}

function textOf(content: string | Uint8Array): string {
  return typeof content === 'string' ? content : Buffer.from(content).toString('utf8');
}
