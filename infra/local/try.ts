// What to try against a local run: `curl` lines that work as printed, made from the version that is served.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { PROXY_PATHS, type ProxyService } from '../../shared/iptables/service.ts';
import { type Rejection, sortRejections } from '../../shared/rejection.ts';
import { readShards } from '../../shared/shard.ts';
import type { VersionStore } from '../../shared/version-store.ts';
import { DEFAULT_STATE } from '../cli/flags.ts';
import { type LocalPlan, NODE_ADDRESS } from './plan.ts';

/** An entry of routes.json. */
interface ServedRoute {
  readonly namespace: string;
  readonly name: string;
  readonly kind: string;
  readonly host: string;
  readonly path: string;
  readonly wildcard: boolean;
  readonly termination: string;
}

/** More than fit a screen help nobody. */
const MOST_ROUTES = 12;
const MOST_REJECTIONS = 5;

/** The lines to print once the node is ready. */
export async function addressesToTry(plan: LocalPlan, store: VersionStore, storeUrl: string): Promise<string[]> {
  const revision = await store.readHead();
  if (revision === null) return ['Nothing is published yet.'];
  const { target } = revision.head;
  const manifest = await store.readManifest(target);
  const paths = Object.entries(manifest.files).filter(([path]) => /^(?:routes|rejections|iptables\/services)\//.test(path));
  const files = new Map(await Promise.all(paths.map(async ([path, entry]) => [path, await store.readFile(entry)] as const)));
  const routes = readShards<ServedRoute>(files, 'routes');
  const { summary } = manifest;
  return [
    `Version ${target.number} is served: ${summary.routes} routes, ${summary.services} services, ${summary.rejections} left out or warned of.`,
    ...rejectionLines(sortRejections(readShards<Rejection>(files, 'rejections'))),
    '',
    'Routes:',
    ...routes.slice(0, MOST_ROUTES).map((route) => `  ${curlLine(route, plan)}`),
    ...(routes.length > MOST_ROUTES
      ? [`  ... and ${routes.length - MOST_ROUTES} more: headgate show ${target.number} --store ${quoted(storeUrl)}`]
      : []),
    ...(plan.namespace === null ? [] : ['', 'Services, in the network namespace of the node:', ...serviceLines(files, plan.namespace)]),
    '',
    `Edit the manifests in ${plan.cluster} and traffic follows. Then:`,
    ...['versions', 'diff 1 2', 'rollback 1 --reason test', 'resume', 'status'].map(
      (line) => `  npx headgate ${line}${storeFlag(storeUrl)}`,
    ),
    '',
    'Ctrl-C stops everything.',
  ];
}

function rejectionLines(rejections: readonly Rejection[]): string[] {
  const lines = rejections.map(({ kind, namespace, name, reason, message }) => `  ${kind} ${namespace}/${name}: ${reason}: ${message}`);
  return lines.length <= MOST_REJECTIONS ? lines : [...lines.slice(0, MOST_REJECTIONS), `  and ${lines.length - MOST_REJECTIONS} more`];
}

function curlLine(route: ServedRoute, plan: LocalPlan): string {
  const host = route.wildcard ? `try.${route.host.replace(/^[^.]*\./, '')}` : route.host;
  const path = route.path === '' ? '/' : route.path;
  if (route.termination === 'http') return `curl -H ${quoted(`Host: ${host}`)} ${quoted(`http://127.0.0.1:${plan.ports.http}${path}`)}`;
  return `curl -k --connect-to ${quoted(`${host}:443:127.0.0.1:${plan.ports.https}`)} ${quoted(`https://${host}${path}`)}`;
}

/** A line for each cluster IP and each node port, over TCP. */
function serviceLines(files: ReadonlyMap<string, Uint8Array>, namespace: string): string[] {
  const services = readShards<ProxyService>(files, PROXY_PATHS.services);
  const addresses = services.flatMap((service) =>
    service.ports
      .filter((port) => port.protocol === 'TCP')
      .flatMap((port) => [
        ...port.clusterIPs.slice(0, 1).map((address) => ({ port, at: `${address}:${port.port}` })),
        ...(port.nodePort === 0 ? [] : [{ port, at: `${NODE_ADDRESS}:${port.nodePort}` }]),
      ]),
  );
  return addresses
    .slice(0, MOST_ROUTES)
    .map(({ port, at }) => `  ip netns exec ${namespace} curl ${port.name.includes('https') ? `-k https://${at}/` : `http://${at}/`}`);
}

/** The commands find the store of `./.headgate` by themselves. */
function storeFlag(url: string): string {
  return url === pathToFileURL(resolve(DEFAULT_STATE, 'store')).href ? '' : ` --store ${quoted(url)}`;
}

/** One word for the shell, whatever is in it. */
function quoted(text: string): string {
  return /^[A-Za-z0-9_./:=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
