// A composed configuration as a plan sees it: servers and map entries, which can change at run time, and everything else,
// which cannot.

import type { Files } from '../../shared/files.ts';
import { readBackendStates } from '../../shared/router/compose.ts';
import type { BackendState } from '../../shared/router/state.ts';

export interface RouterContents {
  readonly backends: ReadonlyMap<string, BackendState>;
  /** By the file's name in the configuration (`maps/http.map`): key -> value. */
  readonly maps: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** Files that HAProxy reads at its start only. */
  readonly fixedFiles: Files;
}

/** Reads composed files (`router/...`). */
export function routerContents(files: Files): RouterContents {
  const maps = new Map<string, ReadonlyMap<string, string>>();
  const fixedFiles = new Map<string, string | Uint8Array>();
  for (const [path, content] of files) {
    if (path.startsWith('router/maps/')) maps.set(path.slice('router/'.length), readMap(content));
    else if (!DERIVED.test(path)) fixedFiles.set(path, content);
  }
  return { backends: readBackendStates(files), maps, fixedFiles };
}

/** The stanzas of backends are compared by the digests in `router/state`; the routes are for people. */
const DERIVED = /^router\/(?:config\/backends-[^/]*|state\/.*|routes\.json)$/;

function readMap(content: string | Uint8Array): Map<string, string> {
  const text = typeof content === 'string' ? content : Buffer.from(content).toString('utf8');
  const lines = text.split('\n').filter((line) => line !== '');
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]));
}
