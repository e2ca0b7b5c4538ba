// The rules of the services of one shard, and the memory by which a node that composes again does so only for the shards that
// changed. Rules never depend on what is remembered.

import type { Digest } from '../digest.ts';
import type { Family } from '../endpoint.ts';
import { canonicalJson, compareText } from '../json.ts';
import { type ChainPart, packChains } from './chain-parts.ts';
import { serviceHealth, type ServiceHealth } from './health-checks.ts';
import { printRule } from './rule.ts';
import type { Rule } from './ruleset.ts';
import { PROXY_PATHS, type ProxyService } from './service.ts';
import { serviceChains } from './service-chains.ts';
import { type AddressEntry, addressEntries, type NodePortEntry, nodePortEntries } from './service-entries.ts';
import { type ServiceView, type Situation, viewService } from './service-view.ts';
import { type UdpFlow, udpFlows } from './udp-flows.ts';

/** What some services contribute to one family's ruleset. */
export interface ServiceRules {
  /** Chains of nat. */
  readonly chains: ChainPart;
  readonly addresses: readonly AddressEntry[];
  readonly nodePorts: readonly NodePortEntry[];
  /** Rules that let the load balancer's health checks in. */
  readonly healthChecks: readonly Rule[];
  readonly health: readonly ServiceHealth[];
  readonly udp: readonly UdpFlow[];
}

export type Situations = Readonly<Record<Family, Situation>>;

/** The digests of a version's files by path. */
export type Digests = ReadonlyMap<string, Digest>;

export type ShardRules = Readonly<Record<Family, ServiceRules>>;

/** Keeps what was composed of each shard. Give the same one to every composition of a process. */
export class ComposeMemory {
  /** What the situations were read from. */
  #source = '';
  #situations: Situations | null = null;
  readonly #shards = new Map<string, { readonly digest: Digest; readonly rules: ShardRules }>();

  /** The paths whose contents the next composition for the same node needs. */
  unknownPaths(digests: Digests, node: string): string[] {
    const knowsSituations = this.#source === sourceOf(digests, node);
    return [...digests]
      .filter(([path, digest]) => !knowsSituations || (isShard(path) && this.#shards.get(path)?.digest !== digest))
      .map(([path]) => path);
  }

  /** What holds for all services; `read` when something of it may have changed. */
  situations(digests: Digests, node: string, read: () => Situations): Situations {
    const source = sourceOf(digests, node);
    if (this.#situations !== null && this.#source === source) return this.#situations;
    const situations = read();
    if (canonicalJson(situations) !== canonicalJson(this.#situations)) this.#shards.clear();
    this.#source = source;
    this.#situations = situations;
    return situations;
  }

  /** The rules of all services in these situations, shard by shard in the order of their paths. */
  shards(digests: Digests, situations: Situations, read: (path: string) => string): ShardRules[] {
    for (const path of this.#shards.keys()) if (!digests.has(path)) this.#shards.delete(path);
    return [...digests]
      .filter(([path]) => isShard(path))
      .sort(byPath)
      .map(([path, digest]) => this.#composed(path, digest, situations, read));
  }

  #composed(path: string, digest: Digest, situations: Situations, read: (path: string) => string): ShardRules {
    const remembered = this.#shards.get(path);
    if (remembered?.digest === digest) return remembered.rules;
    const services: readonly ProxyService[] = JSON.parse(read(path));
    const rules = { IPv4: serviceRules(services, situations.IPv4), IPv6: serviceRules(services, situations.IPv6) };
    this.#shards.set(path, { digest, rules });
    return rules;
  }
}

function isShard(path: string): boolean {
  return path.startsWith(`${PROXY_PATHS.services}/`);
}

/** Names the node and all files but the shards of services. */
function sourceOf(digests: Digests, node: string): string {
  const others = [...digests].filter(([path]) => !isShard(path)).sort(byPath);
  return [node, ...others].join();
}

function byPath([a]: readonly [string, Digest], [b]: readonly [string, Digest]): number {
  return compareText(a, b);
}

function serviceRules(services: readonly ProxyService[], situation: Situation): ServiceRules {
  const ours = services.filter(({ families }) => families.includes(situation.family));
  const views = ours.flatMap((service): ServiceView[] => service.ports.map((port) => viewService(service, port, situation)));
  return {
    chains: packChains(views.filter(({ served }) => served).flatMap(serviceChains)),
    addresses: views.flatMap(addressEntries),
    nodePorts: views.flatMap(nodePortEntries),
    healthChecks: ours.filter(({ healthCheckNodePort }) => healthCheckNodePort !== 0).map(healthCheckRule),
    health: ours.flatMap((service) => serviceHealth(service, situation)),
    udp: views.flatMap(udpFlows),
  };
}

/** Health checks reach the node even where it takes nothing else. */
function healthCheckRule({ namespace, name, healthCheckNodePort }: ProxyService): Rule {
  const comment = `${namespace}/${name} health check node port`;
  return printRule({ protocol: 'TCP', comment, port: healthCheckNodePort, jump: ['ACCEPT'] });
}
