// The chains of a service's port in nat: balancing over endpoints (SVC, SVL), one per endpoint (SEP), traffic from outside
// (EXT), source ranges (FW).

import { familyOf, holds } from './addresses.ts';
import { CHAINS } from './chain-names.ts';
import type { Chain } from './chain-parts.ts';
import { printRule, type RuleParts } from './rule.ts';
import type { Rule } from './ruleset.ts';
import type { Target } from './select.ts';
import type { TrafficPolicy } from './service.ts';
import { balancing, type ServiceView, targetChain } from './service-view.ts';

/** The chains of a service that is served. */
export function serviceChains(view: ServiceView): Chain[] {
  const used = usedPolicies(view)
    .map((policy) => balancing(view, policy))
    .filter(({ targets }) => targets.length > 0);
  const targets = new Map(used.flatMap(({ targets: reached }) => reached.map((target) => [target.text, target])));
  return [
    ...used.map(({ chain, targets: reached }): Chain => [chain, balancingRules(view, chain, reached)]),
    ...[...targets.values()].map((target): Chain => [targetChain(view, target), endpointRules(view, target)]),
    ...(view.external ? [[view.chains.EXT, externalRules(view)] satisfies Chain] : []),
    ...(view.guarded ? [[view.chains.FW, firewallRules(view)] satisfies Chain] : []),
  ];
}

/** From pods and from the node itself, external addresses lead to all endpoints whatever the policies. */
function usedPolicies({ service, external }: ServiceView): TrafficPolicy[] {
  const policies: TrafficPolicy[] = external ? ['Cluster', service.internalPolicy, service.externalPolicy] : [service.internalPolicy];
  return [...new Set(policies)];
}

/** SVC and SVL: who is masqueraded, then who keeps an endpoint, then one of them by chance. */
function balancingRules(view: ServiceView, chain: string, targets: readonly Target[]): Rule[] {
  const isInternal = chain === balancing(view, view.service.internalPolicy).chain;
  const seconds = view.service.affinitySeconds;
  return [
    ...(isInternal ? masqueradeRules(view) : []),
    ...(seconds === null ? [] : targets.map((target) => stickyRule(view, target, seconds))),
    ...targets.map((target, index) => drawnRule(view, target, targets.length - index)),
  ];
}

/** What comes to a cluster IP and not from a pod would be answered past this node: masqueraded. Nothing is, when pods are unknown. */
function masqueradeRules(view: ServiceView): Rule[] {
  const { options, podCidrs } = view.situation;
  if (!options.masqueradeAll && podCidrs.length === 0) return [];
  const chain = options.masqueradeAll ? CHAINS.markMasquerade : CHAINS.markOutside;
  return view.clusterIPs.map((destination) => rule(view, 'cluster IP', { destination, ...portOf(view), jump: [chain] }));
}

function stickyRule(view: ServiceView, target: Target, seconds: number): Rule {
  const chain = targetChain(view, target);
  const recent = ['-m', 'recent', '--rcheck', '--seconds', String(seconds), '--reap', ...recentList(view, chain)];
  return rule(view, `-> ${target.text}`, { matches: [recent], jump: [chain] });
}

/** One of the endpoints that are left, each as likely as the others: the last one takes what comes to it. */
function drawnRule(view: ServiceView, target: Target, left: number): Rule {
  const chance = ['-m', 'statistic', '--mode', 'random', '--probability', (1 / left).toFixed(10)];
  return rule(view, `-> ${target.text}`, { matches: left === 1 ? [] : [chance], jump: [targetChain(view, target)] });
}

/** SEP: an endpoint that reaches itself would answer itself directly: masqueraded. Then the new destination. */
function endpointRules(view: ServiceView, target: Target): Rule[] {
  const chain = targetChain(view, target);
  const { protocol } = view.port;
  const remember = view.service.affinitySeconds === null ? [] : [['-m', 'recent', '--set', ...recentList(view, chain)]];
  return [
    rule(view, '', { source: target.address, jump: [CHAINS.markMasquerade] }),
    rule(view, '', {
      protocol,
      matches: [...remember, ['-m', protocol.toLowerCase()]],
      jump: ['DNAT', '--to-destination', target.text],
    }),
  ];
}

function recentList({ situation }: ServiceView, name: string): string[] {
  const mask = situation.family === 'IPv4' ? '255.255.255.255' : 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff';
  return ['--name', name, '--mask', mask, '--rsource'];
}

/** EXT: under the cluster policy everybody is masqueraded; under the local one only the node, for others keep their address. */
function externalRules(view: ServiceView): Rule[] {
  const { chain, targets } = balancing(view, view.service.externalPolicy);
  const onwards = targets.length === 0 ? [] : [rule(view, '', { jump: [chain] })];
  if (view.service.externalPolicy === 'Cluster') {
    return [rule(view, 'masquerade external traffic', { jump: [CHAINS.markMasquerade] }), ...onwards];
  }
  const everywhere = view.chains.SVC;
  const fromNode = ['-m', 'addrtype', '--src-type', 'LOCAL'];
  return [
    ...view.situation.podCidrs.map((source) => rule(view, 'from pods', { source, jump: [everywhere] })),
    rule(view, 'masquerade traffic from the node', { matches: [fromNode], jump: [CHAINS.markMasquerade] }),
    rule(view, 'from the node', { matches: [fromNode], jump: [everywhere] }),
    ...onwards,
  ];
}

/**
 * FW: sources that may pass. What comes to its end keeps its destination, and is dropped in KUBE-PROXY-FIREWALL. A node whose address
 * may pass reaches a load-balancer IP that is an address of its own with that IP as the source.
 */
function firewallRules(view: ServiceView): Rule[] {
  const { family, node } = view.situation;
  const ranges = (view.service.sourceRanges ?? []).filter((range) => familyOf(range) === family);
  const nodeMayPass = ranges.some((range) => node.internalIPs.some((address) => holds(range, address)));
  const sources = [...ranges, ...(nodeMayPass ? view.loadBalancerIPs : [])];
  return sources.map((source) => rule(view, 'load-balancer IP', { source, jump: [view.chains.EXT] }));
}

function portOf({ port }: ServiceView): Pick<RuleParts, 'protocol' | 'port'> {
  return { protocol: port.protocol, port: port.port };
}

function rule(view: ServiceView, words: string, parts: RuleParts): Rule {
  const comment = words === '' ? view.key : `${view.key} ${words}`;
  return printRule({ ...parts, comment: view.situation.options.sparseComments ? null : comment });
}
