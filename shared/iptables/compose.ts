// Composes the iptables state of one node from a version's files: picks this node's endpoints and prints the rules as
// values. The same code runs in the sidecar and in `render`.

import { digestOf } from '../digest.ts';
import type { Family } from '../endpoint.ts';
import { HeadgateError } from '../error.ts';
import type { Files } from '../files.ts';
import { compareText } from '../json.ts';
import { roleOfPath } from '../role.ts';
import { readShards } from '../shard.ts';
import { familyOf } from './addresses.ts';
import { CHAINS, DISPATCH_PREFIXES } from './chain-names.ts';
import { type Chain, type ChainPart, ChainParts } from './chain-parts.ts';
import { dispatchByAddress, dispatchByNodePort, type DispatchChains } from './dispatch.ts';
import { answeredHealthChecks } from './health-checks.ts';
import {
  forwardRules,
  JUMPS,
  localnetGate,
  localnetGuard,
  markMasqueradeRules,
  markOutsideRules,
  type NodeKernel,
  nodePortGates,
  postroutingRules,
} from './node-chains.ts';
import type { ProxyState, Rule, Ruleset, Table, TableState } from './ruleset.ts';
import { PROXY_PATHS, type ProxyNode, type ProxyOptions } from './service.ts';
import type { Dispatch } from './service-entries.ts';
import type { Situation } from './service-view.ts';
import { ComposeMemory, type Digests, type ServiceRules, type Situations } from './shard-rules.ts';

/**
 * What this node sets. A node that the cluster does not know gets the same rules, without addresses and a zone of its own.
 * @param files a version's `iptables/...`; other files are ignored
 * @param kernel what the node can do
 * @param memory makes later compositions with the same one cost what changed
 * @param digests of all the version's files; contents that the memory knows need not be among `files`
 * @throws HeadgateError `bad-content` (stage `plan`) when a file is missing
 */
export function composeProxy(
  files: Files,
  node: string,
  kernel: NodeKernel = CURRENT_KERNEL,
  memory: ComposeMemory = new ComposeMemory(),
  digests: Digests = digestsOf(files),
): ProxyState {
  const situations = memory.situations(digests, node, () => readSituations(files, node));
  const shards = memory.shards(digests, situations, (path) => textOf(files, path));
  const [IPv4, IPv6] = [joined(shards.map((shard) => shard.IPv4)), joined(shards.map((shard) => shard.IPv6))];
  return {
    rulesets: { IPv4: composeRuleset(situations.IPv4, IPv4, kernel), IPv6: composeRuleset(situations.IPv6, IPv6, kernel) },
    routeLocalnet: situations.IPv4.options.localhostNodePorts,
    udp: new Map([...IPv4.udp, ...IPv6.udp].sort(([a], [b]) => compareText(a, b))),
    healthChecks: [...answeredHealthChecks(situations.IPv4, IPv4.health), ...answeredHealthChecks(situations.IPv6, IPv6.health)],
  };
}

const CURRENT_KERNEL: NodeKernel = { conntrackLiberal: false, randomFully: true };

function digestsOf(files: Files): Digests {
  return new Map([...files].filter(([path]) => roleOfPath(path) === 'service-proxy').map(([path, content]) => [path, digestOf(content)]));
}

function readSituations(files: Files, node: string): Situations {
  const options: ProxyOptions = JSON.parse(textOf(files, PROXY_PATHS.options));
  const found = readShards<ProxyNode>(files, PROXY_PATHS.nodes).find(({ name }) => name === node);
  const situationOf = (family: Family): Situation => ({
    family,
    node: found ?? { name: node, internalIPs: [], externalIPs: [], zone: null },
    options,
    podCidrs: options.clusterCIDRs.filter((cidr) => familyOf(cidr) === family),
  });
  return { IPv4: situationOf('IPv4'), IPv6: situationOf('IPv6') };
}

function textOf(files: Files, path: string): string {
  const content = files.get(path);
  if (content === undefined) throw new HeadgateError('bad-content', 'plan', `${path} is missing from the version`);
  return typeof content === 'string' ? content : Buffer.from(content).toString('utf8');
}

/** What all shards contribute to one family's ruleset. */
interface JoinedRules extends Omit<ServiceRules, 'chains'> {
  readonly chains: readonly ChainPart[];
}

function joined(shards: readonly ServiceRules[]): JoinedRules {
  return {
    chains: shards.map(({ chains }) => chains),
    addresses: shards.flatMap(({ addresses }) => addresses),
    nodePorts: shards.flatMap(({ nodePorts }) => nodePorts),
    healthChecks: shards.flatMap(({ healthChecks }) => healthChecks).sort(compareText),
    health: shards.flatMap(({ health }) => health),
    udp: shards.flatMap(({ udp }) => udp),
  };
}

function composeRuleset(situation: Situation, rules: JoinedRules, kernel: NodeKernel): Ruleset {
  return {
    family: situation.family,
    tables: { filter: filterTable(situation, rules, kernel), nat: natTable(situation, rules, kernel) },
  };
}

function natTable(situation: Situation, rules: JoinedRules, kernel: NodeKernel): TableState {
  const { options, podCidrs } = situation;
  const services = addressDispatch(situation, rules, 'nat', 'services');
  const byPort = dispatchByNodePort(rules.nodePorts.filter(({ table }) => table === 'nat'));
  const marksOutside = !options.masqueradeAll && podCidrs.length > 0;
  return {
    chains: new ChainParts(
      new Map<string, readonly Rule[]>([
        [CHAINS.postrouting, postroutingRules(kernel)],
        [CHAINS.markMasquerade, markMasqueradeRules()],
        ...(marksOutside ? [[CHAINS.markOutside, markOutsideRules(podCidrs)] satisfies Chain] : []),
        [CHAINS.services, [...services.jumps, ...localnetGate(situation), ...nodePortGates(situation, CHAINS.nodePorts)]],
        ...services.chains,
        [CHAINS.nodePorts, byPort.jumps],
        ...byPort.chains,
      ]),
      rules.chains,
    ),
    jumps: JUMPS.nat,
  };
}

function filterTable(situation: Situation, rules: JoinedRules, kernel: NodeKernel): TableState {
  const services = addressDispatch(situation, rules, 'filter', 'services');
  const external = addressDispatch(situation, rules, 'filter', 'externalServices');
  const firewall = addressDispatch(situation, rules, 'filter', 'firewall');
  const verdicts = dispatchByNodePort(rules.nodePorts.filter(({ table }) => table === 'filter'));
  return {
    chains: new Map<string, readonly Rule[]>([
      [CHAINS.services, services.jumps],
      ...services.chains,
      [CHAINS.externalServices, [...external.jumps, ...nodePortGates(situation, CHAINS.nodePortVerdicts)]],
      ...external.chains,
      [CHAINS.nodePortVerdicts, verdicts.jumps],
      ...verdicts.chains,
      [CHAINS.firewall, firewall.jumps],
      ...firewall.chains,
      [CHAINS.nodePorts, [...localnetGuard(situation), ...rules.healthChecks]],
      [CHAINS.forward, forwardRules(kernel)],
    ]),
    jumps: JUMPS.filter,
  };
}

function addressDispatch({ family }: Situation, { addresses }: JoinedRules, table: Table, kind: Dispatch): DispatchChains {
  const entries = addresses.filter((entry) => entry.table === table && entry.dispatch === kind);
  return dispatchByAddress(DISPATCH_PREFIXES[kind], family, entries);
}
