// Composes the iptables state of one node from a version's files: picks this node's endpoints and prints the rules as
// values. The same code runs in the sidecar and in `render`.

import type { Family } from '../endpoint.ts';
import { HeadgateError } from '../error.ts';
import type { Files } from '../files.ts';
import { readShards } from '../shard.ts';
import { compareText } from '../json.ts';
import { familyOf } from './addresses.ts';
import { CHAINS, DISPATCH_PREFIXES } from './chain-names.ts';
import { dispatchByAddress, dispatchByNodePort, type DispatchChains } from './dispatch.ts';
import {
  forwardRules,
  JUMPS,
  localnetGuard,
  markMasqueradeRules,
  markOutsideRules,
  type NodeKernel,
  nodePortGates,
  postroutingRules,
} from './node-chains.ts';
import { printRule } from './rule.ts';
import type { ProxyState, Rule, Ruleset, Table, TableState } from './ruleset.ts';
import { PROXY_PATHS, type ProxyNode, type ProxyOptions, type ProxyService } from './service.ts';
import { type Chain, serviceChains } from './service-chains.ts';
import { type AddressEntry, addressEntries, type Dispatch, type NodePortEntry, nodePortEntries } from './service-entries.ts';
import { type ServiceView, type Situation, viewService } from './service-view.ts';
import { udpFlows } from './udp-flows.ts';

const CURRENT_KERNEL: NodeKernel = { conntrackLiberal: false, randomFully: true };

/**
 * What this node sets. A node that the cluster does not know gets the same rules, without addresses and a zone of its own.
 * @param files a version's `iptables/...`; other files are ignored
 * @throws HeadgateError `bad-content` (stage `plan`) when the options are missing
 */
export function composeProxy(files: Files, node: string, kernel: NodeKernel = CURRENT_KERNEL): ProxyState {
  const options = readOptions(files);
  const services = readShards<ProxyService>(files, PROXY_PATHS.services);
  const found = readShards<ProxyNode>(files, PROXY_PATHS.nodes).find(({ name }) => name === node);
  const situationOf = (family: Family): Situation => ({
    family,
    node: found ?? { name: node, internalIPs: [], externalIPs: [], zone: null },
    options,
    podCidrs: options.clusterCIDRs.filter((cidr) => familyOf(cidr) === family),
  });
  const views = { IPv4: viewServices(services, situationOf('IPv4')), IPv6: viewServices(services, situationOf('IPv6')) };
  return {
    rulesets: {
      IPv4: composeRuleset(situationOf('IPv4'), views.IPv4, kernel),
      IPv6: composeRuleset(situationOf('IPv6'), views.IPv6, kernel),
    },
    routeLocalnet: options.localhostNodePorts,
    udp: udpFlows([...views.IPv4, ...views.IPv6]),
  };
}

function readOptions(files: Files): ProxyOptions {
  const content = files.get(PROXY_PATHS.options);
  if (content === undefined) throw new HeadgateError('bad-content', 'plan', `${PROXY_PATHS.options} is missing from the version`);
  return JSON.parse(typeof content === 'string' ? content : Buffer.from(content).toString('utf8'));
}

function viewServices(services: readonly ProxyService[], situation: Situation): ServiceView[] {
  return services
    .filter(({ families }) => families.includes(situation.family))
    .flatMap((service) => service.ports.map((port) => viewService(service, port, situation)));
}

function composeRuleset(situation: Situation, views: readonly ServiceView[], kernel: NodeKernel): Ruleset {
  const addresses = views.flatMap(addressEntries);
  const nodePorts = views.flatMap(nodePortEntries);
  const dispatch = (table: Table, kind: Dispatch): DispatchChains =>
    dispatchByAddress(
      DISPATCH_PREFIXES[kind],
      situation.family,
      addresses.filter((entry) => entry.table === table && entry.dispatch === kind).sort(byAddress),
    );
  const filter = filterTable(situation, views, dispatch, nodePorts, kernel);
  return { family: situation.family, tables: { filter, nat: natTable(situation, views, dispatch, nodePorts, kernel) } };
}

type Dispatcher = (table: Table, kind: Dispatch) => DispatchChains;

function natTable(
  situation: Situation,
  views: readonly ServiceView[],
  dispatch: Dispatcher,
  nodePorts: readonly NodePortEntry[],
  kernel: NodeKernel,
): TableState {
  const { options, podCidrs } = situation;
  const services = dispatch('nat', 'services');
  const byNodePort = dispatchByNodePort(ofTable(nodePorts, 'nat'));
  const marksOutside = !options.masqueradeAll && podCidrs.length > 0;
  return {
    chains: new Map<string, readonly Rule[]>([
      [CHAINS.postrouting, postroutingRules(kernel)],
      [CHAINS.markMasquerade, markMasqueradeRules()],
      ...(marksOutside ? [[CHAINS.markOutside, markOutsideRules(podCidrs)] satisfies Chain] : []),
      [CHAINS.services, [...services.jumps, ...nodePortGates(situation, CHAINS.nodePorts)]],
      ...services.chains,
      [CHAINS.nodePorts, byNodePort.jumps],
      ...byNodePort.chains,
      ...views.filter(({ served }) => served).flatMap(serviceChains),
    ]),
    jumps: JUMPS.nat,
  };
}

function filterTable(
  situation: Situation,
  views: readonly ServiceView[],
  dispatch: Dispatcher,
  nodePorts: readonly NodePortEntry[],
  kernel: NodeKernel,
): TableState {
  const [services, external, firewall] = [
    dispatch('filter', 'services'),
    dispatch('filter', 'externalServices'),
    dispatch('filter', 'firewall'),
  ];
  const verdicts = dispatchByNodePort(ofTable(nodePorts, 'filter'));
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
      [CHAINS.nodePorts, [...localnetGuard(situation), ...healthCheckRules(views)]],
      [CHAINS.forward, forwardRules(kernel)],
    ]),
    jumps: JUMPS.filter,
  };
}

/** The load balancer's health checks reach the node even where it takes nothing else. */
function healthCheckRules(views: readonly ServiceView[]): Rule[] {
  const services = new Set(views.map(({ service }) => service).filter(({ healthCheckNodePort }) => healthCheckNodePort !== 0));
  return [...services].map(({ namespace, name, healthCheckNodePort }) =>
    printRule({ protocol: 'TCP', comment: `${namespace}/${name} health check node port`, port: healthCheckNodePort, jump: ['ACCEPT'] }),
  );
}

function ofTable(entries: readonly NodePortEntry[], table: Table): NodePortEntry[] {
  return entries.filter((entry) => entry.table === table).sort((a, b) => a.nodePort - b.nodePort || compareText(a.rule, b.rule));
}

function byAddress(a: AddressEntry, b: AddressEntry): number {
  return compareText(a.address, b.address) || compareText(a.rule, b.rule);
}
