// How a running HAProxy gets from one configuration to the next: nothing, commands on its admin socket, or a reload with
// all its reasons. Pure. What it does not know how to change at run time is a reason, never left out.

import { serverLine } from '../../shared/router/server-line.ts';
import type { BackendState, Server } from '../../shared/router/state.ts';
import type { Capabilities } from './capabilities.ts';
import type { RouterContents } from './contents.ts';
import { planMaps } from './plan-maps.ts';
import { planReasons } from './plan-reasons.ts';
import { commandWord, NOTHING, type RuntimeCommand, type ServerPath, serverPath } from './runtime-command.ts';

/** Servers that the process still holds, in maintenance, until their connections end; null: not known what they were. */
export type Lingering = ReadonlyMap<ServerPath, Server | null>;

export type Plan =
  | { readonly kind: 'none' }
  | { readonly kind: 'reload'; readonly reasons: readonly string[] }
  | {
      readonly kind: 'runtime';
      /** Each step's commands together, the next step's only when all of them worked: nothing is taken away before what replaces it serves. */
      readonly steps: readonly (readonly RuntimeCommand[])[];
      /** Put into maintenance by the commands: to be deleted when their connections have ended. */
      readonly removed: ReadonlyMap<ServerPath, Server>;
      /** Were lingering and serve again: no longer to be deleted. */
      readonly revived: readonly ServerPath[];
    };

const REGISTERED = /^New server registered\.$/;
/** A server that was loaded without a check gets none at run time; the next reload gives it one. Readiness is the cluster's to judge until then. */
const HEALTH = /^$|^Health check was not configured on this server, cannot enable\.$/;

/** The plan from what runs to what should run. */
export function plan(from: RouterContents, to: RouterContents, lingering: Lingering, capabilities: Capabilities): Plan {
  const servers = planServers(from, to, lingering);
  const maps = planMaps(from.maps, to.maps);
  const steps = [servers.additions, servers.changes, maps.puts, maps.removals, servers.removals].filter((step) => step.length > 0);
  const reasons = [...planReasons(from, to), ...servers.reasons];
  if (steps.length > 0 && !capabilities.addServer) reasons.push('this version of HAProxy cannot add servers at run time');
  if (reasons.length > 0) return { kind: 'reload', reasons };
  if (steps.length === 0) return { kind: 'none' };
  return { kind: 'runtime', steps, removed: servers.removed, revived: servers.revived };
}

interface ServerPlan {
  readonly additions: RuntimeCommand[];
  readonly changes: RuntimeCommand[];
  readonly removals: RuntimeCommand[];
  readonly removed: Map<ServerPath, Server>;
  readonly revived: ServerPath[];
  readonly reasons: string[];
}

function planServers(from: RouterContents, to: RouterContents, lingering: Lingering): ServerPlan {
  const servers: ServerPlan = { additions: [], changes: [], removals: [], removed: new Map(), revived: [], reasons: [] };
  for (const next of to.backends.values()) {
    const previous = from.backends.get(next.backend);
    if (previous !== undefined) planBackend(previous, next, lingering, servers);
  }
  return servers;
}

function planBackend(previous: BackendState, next: BackendState, lingering: Lingering, servers: ServerPlan): void {
  const before = new Map(previous.servers.map((server) => [server.name, server]));
  const added = next.servers.filter((server) => !before.has(server.name));
  for (const server of added) addServer(next, server, lingering, servers);
  for (const server of next.servers) {
    const old = before.get(server.name);
    if (old !== undefined) changeServer(next.backend, old, server, servers);
    before.delete(server.name);
  }
  for (const server of before.values()) {
    const path = serverPath(next.backend, server.name);
    servers.removals.push({ text: `set server ${path} state maint`, expect: NOTHING });
    servers.removed.set(path, server);
  }
}

function addServer(backend: BackendState, server: Server, lingering: Lingering, servers: ServerPlan): void {
  const path = serverPath(backend.backend, server.name);
  const left = lingering.get(path);
  if (left === undefined) {
    servers.additions.push({ text: `add server ${commandWord(backend.backend)}/${serverLine(server, 'socket')}`, expect: REGISTERED });
    // Cookies of servers that were added are not computed until this is said again.
    if (backend.cookies) servers.additions.push({ text: `enable dynamic-cookie backend ${commandWord(backend.backend)}`, expect: NOTHING });
    servers.additions.push({ text: `enable server ${path}`, expect: NOTHING });
    if (server.checkInterval !== null) servers.additions.push({ text: `enable health ${path}`, expect: HEALTH });
  } else if (left === null || !isAlike(left, server)) {
    servers.reasons.push(`server of this name still finishes connections: ${path}`);
  } else {
    changeServer(backend.backend, left, server, servers);
    servers.additions.push({ text: `set server ${path} state ready`, expect: NOTHING });
    servers.revived.push(path);
  }
}

function changeServer(backend: string, old: Server, server: Server, servers: ServerPlan): void {
  const path = serverPath(backend, server.name);
  if (!isAlike(old, server)) servers.reasons.push(`server changed: ${path}`);
  if (old.weight !== server.weight) servers.changes.push({ text: `set server ${path} weight ${server.weight}`, expect: NOTHING });
  if ((old.checkInterval === null) !== (server.checkInterval === null)) {
    const verb = server.checkInterval === null ? 'disable' : 'enable';
    servers.changes.push({ text: `${verb} health ${path}`, expect: HEALTH });
  }
}

/** True when one can become the other at run time: only the weight, and whether it is checked, may differ. */
function isAlike(one: Server, other: Server): boolean {
  const checked = one.checkInterval !== null && other.checkInterval !== null;
  const plain = (server: Server): string =>
    serverLine({ ...server, weight: 1, checkInterval: checked ? server.checkInterval : null }, 'configuration');
  return plain(one) === plain(other);
}
