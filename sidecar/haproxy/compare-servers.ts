// Whether the servers of a running HAProxy are what its configuration says, and what puts them right. Pure.

import type { RouterContents } from './contents.ts';
import type { Lingering } from './plan.ts';
import type { ServerReadback } from './readback.ts';
import { NOTHING, type RuntimeCommand, serverPath } from './runtime-command.ts';

export interface ServerDifferences {
  /** In words, one each. */
  readonly found: readonly string[];
  /** What commands can put right. */
  readonly commands: readonly RuntimeCommand[];
  /** True: only a reload puts all of it right. */
  readonly reload: boolean;
}

/** Compares addresses, weights and states of the servers of our backends. Lingering servers are expected in maintenance. */
export function compareServers(contents: RouterContents, readback: readonly ServerReadback[], lingering: Lingering): ServerDifferences {
  const found: string[] = [];
  const commands: RuntimeCommand[] = [];
  const running = new Map(readback.map((server) => [serverPath(server.backend, server.name), server]));
  let reload = false;
  for (const { backend, servers } of contents.backends.values()) {
    for (const server of servers) {
      const path = serverPath(backend, server.name);
      const runs = running.get(path);
      running.delete(path);
      if (runs === undefined || runs.address !== server.address || runs.port !== server.port) {
        found.push(runs === undefined ? `server ${path} was missing` : `server ${path} had the address ${runs.address}:${runs.port}`);
        reload = true;
        continue;
      }
      if (runs.weight !== server.weight) {
        found.push(`server ${path} had the weight ${runs.weight}`);
        commands.push({ text: `set server ${path} weight ${server.weight}`, expect: NOTHING });
      }
      if (runs.maintenance) {
        found.push(`server ${path} was in maintenance`);
        commands.push({ text: `set server ${path} state ready`, expect: NOTHING });
      }
    }
  }
  for (const [path, { backend }] of running) {
    if (!contents.backends.has(backend) || lingering.has(path)) continue;
    found.push(`server ${path} was not ours`);
    reload = true;
  }
  return { found, commands, reload };
}

/** Servers in maintenance that the configuration does not have: an earlier sidecar was deleting them. */
export function leftOver(contents: RouterContents, readback: readonly ServerReadback[]): Map<string, null> {
  const known = new Set(
    [...contents.backends.values()].flatMap(({ backend, servers }) => servers.map(({ name }) => serverPath(backend, name))),
  );
  const left = readback.filter(({ backend, name, maintenance }) => {
    return maintenance && contents.backends.has(backend) && !known.has(serverPath(backend, name));
  });
  return new Map(left.map(({ backend, name }) => [serverPath(backend, name), null]));
}
