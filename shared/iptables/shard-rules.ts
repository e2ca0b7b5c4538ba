// The rules of the services of one shard, and the memory by which a node that composes again does so only for the shards that
// changed. Rules never depend on what is remembered.

import type { Family } from '../endpoint.ts';
import type { Files } from '../files.ts';
import { canonicalJson, compareText } from '../json.ts';
import { serviceHealth, type ServiceHealth } from './health-checks.ts';
import { printRule } from './rule.ts';
import type { Rule } from './ruleset.ts';
import { PROXY_PATHS, type ProxyService } from './service.ts';
import { type Chain, serviceChains } from './service-chains.ts';
import { type AddressEntry, addressEntries, type NodePortEntry, nodePortEntries } from './service-entries.ts';
import { type ServiceView, type Situation, viewService } from './service-view.ts';
import { type UdpFlow, udpFlows } from './udp-flows.ts';

/** What some services contribute to one family's ruleset. */
export interface ServiceRules {
  /** Chains of nat. */
  readonly chains: readonly Chain[];
  readonly addresses: readonly AddressEntry[];
  readonly nodePorts: readonly NodePortEntry[];
  /** Rules that let the load balancer's health checks in. */
  readonly healthChecks: readonly Rule[];
  readonly health: readonly ServiceHealth[];
  readonly udp: readonly UdpFlow[];
}

export type Situations = Readonly<Record<Family, Situation>>;

/** Keeps what was composed of each shard, by its path. Give the same one to every composition of a process. */
export type ComposeMemory = Map<string, { readonly content: string; readonly situations: string; readonly rules: ShardRules }>;

type ShardRules = Readonly<Record<Family, ServiceRules>>;

/** The rules of all services, shard by shard in the order of their paths. */
export function composeShards(files: Files, situations: Situations, memory: ComposeMemory): ShardRules[] {
  const paths = [...files.keys()].filter((path) => path.startsWith(`${PROXY_PATHS.services}/`)).sort(compareText);
  const known = canonicalJson(situations);
  for (const path of memory.keys()) if (!files.has(path)) memory.delete(path);
  return paths.map((path) => {
    const content = textOf(files, path);
    const remembered = memory.get(path);
    if (remembered?.content === content && remembered.situations === known) return remembered.rules;
    const services: readonly ProxyService[] = JSON.parse(content);
    const rules = { IPv4: serviceRules(services, situations.IPv4), IPv6: serviceRules(services, situations.IPv6) };
    memory.set(path, { content, situations: known, rules });
    return rules;
  });
}

function textOf(files: Files, path: string): string {
  const content = files.get(path) ?? '[]';
  return typeof content === 'string' ? content : Buffer.from(content).toString('utf8');
}

function serviceRules(services: readonly ProxyService[], situation: Situation): ServiceRules {
  const ours = services.filter(({ families }) => families.includes(situation.family));
  const views = ours.flatMap((service): ServiceView[] => service.ports.map((port) => viewService(service, port, situation)));
  return {
    chains: views.filter(({ served }) => served).flatMap(serviceChains),
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
