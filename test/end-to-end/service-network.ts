// A node whose rules the sidecar's own role writes, between pods and clients, for tests that send packets. The node is n1;
// pods `near` and `idle` are on it, `far` stands for a pod of another node, `client` for somebody outside.

import { after, before, describe } from 'node:test';
import type { IptablesOptions } from '../../functions/options.ts';
import type { ClusterNode, ClusterState, Service } from '../../functions/cluster/objects.ts';
import { digestOf } from '../../shared/digest.ts';
import { type EndpointSubset, FAMILIES, type Family } from '../../shared/endpoint.ts';
import { addressPort } from '../../shared/iptables/addresses.ts';
import type { Rejection } from '../../shared/rejection.ts';
import { iptablesRole } from '../../sidecar/iptables/apply.ts';
import { BACK_ENDS, type BackEnd } from '../../sidecar/iptables/tool.ts';
import type { RoleApplier } from '../../sidecar/role.ts';
import { endpointsOf, node as clusterNode, proxyFiles, state } from '../functions/iptables/cluster.ts';
import { never, quiet, runIn, settleOn } from '../sidecar/iptables/rulesets.ts';
import { Namespace, namespacesMissing, type Question, type Reply } from './namespace.ts';

/** Who has which address. `unknown` is one of the node that the cluster does not know. Of the services' addresses the last byte of `zero` is 0. */
export const ADDRESSES = {
  IPv4: {
    family: 'IPv4',
    near: '10.180.0.1',
    idle: '10.180.0.2',
    far: '10.180.2.1',
    client: '203.0.113.2',
    stranger: '203.0.114.2',
    node: '192.168.0.2',
    node2: '192.168.9.2',
    unknown: '192.168.77.7',
    web: '172.30.0.41',
    other: '172.30.0.42',
    zero: '172.30.1.0',
    external: '198.51.100.80',
    balancer: '198.51.100.81',
    podRange: '10.180.0.0/16',
    clientRange: '203.0.113.0/24',
    nodeRange: '192.168.0.0/24',
    node2Range: '192.168.9.0/24',
  },
  IPv6: {
    family: 'IPv6',
    near: 'fd00:180::1',
    idle: 'fd00:180::2',
    far: 'fd00:180:2::1',
    client: 'fd00:203::2',
    stranger: 'fdfe:204::2',
    node: 'fd00:192::2',
    // As these and `stranger` are less like all the others, no packet's source is chosen to be one of them.
    node2: 'fdff:9::2',
    unknown: 'fdff:77::7',
    web: 'fd00:30::129',
    other: 'fd00:30::12a',
    zero: 'fd00:30::',
    external: 'fd00:198::80',
    balancer: 'fd00:198::81',
    podRange: 'fd00:180::/32',
    clientRange: 'fd00:203::/64',
    nodeRange: 'fd00:192::/64',
    node2Range: 'fdff:9::/64',
  },
} as const satisfies Record<Family, Readonly<Record<string, string>>>;
export type Addresses = (typeof ADDRESSES)[Family];

const PLACES = ['near', 'idle', 'far', 'client', 'beyond'] as const;
export type Place = (typeof PLACES)[number] | 'node';

/** Long enough for an answer, short for silence. */
export const SILENCE: Partial<Question> = { timeoutMs: 400 };
export const UDP: Partial<Question> = { protocol: 'udp' };
export const TIMEOUT: Reply = { error: 'TIMEOUT' };
export const REFUSED: Reply = { error: 'ECONNREFUSED' };

type Body = (network: () => ServiceNetwork, at: Addresses) => void;

/** Runs the tests with both back ends, a network for each, and on it with both families. */
export function onNodes(title: string, body: Body, families: readonly Family[] = FAMILIES): void {
  for (const backEnd of BACK_ENDS) {
    describe(`${title}, iptables-${backEnd}`, { skip }, () => {
      let network: ServiceNetwork | undefined;
      const running = (): ServiceNetwork => {
        if (network === undefined) throw new Error('the network is not up');
        return network;
      };
      before(async () => {
        network = await ServiceNetwork.create(backEnd);
      });
      after(() => network?.close());
      for (const family of families) describe(family, () => body(running, ADDRESSES[family]));
    });
  }
}

const skip = await namespacesMissing();

type Endpoints = Readonly<Record<string, readonly EndpointSubset[]>>;

export class ServiceNetwork {
  readonly backEnd: BackEnd;
  readonly #places: ReadonlyMap<Place, Namespace>;
  #role: RoleApplier;
  #versions = 0;

  private constructor(backEnd: BackEnd, places: ReadonlyMap<Place, Namespace>) {
    this.backEnd = backEnd;
    this.#places = places;
    this.#role = this.#newRole();
  }

  /** Everything linked, no rules; pods listen on TCP 80, 8443 and 5353 and UDP 53, what lies beyond on 80. */
  static async create(backEnd: BackEnd): Promise<ServiceNetwork> {
    const names = ['node', ...PLACES] as const;
    const made = await Promise.all(names.map(async (name) => [name, await Namespace.create(name)] as const));
    const network = new ServiceNetwork(backEnd, new Map(made));
    try {
      await network.#link();
      await network.#listen();
      return network;
    } catch (error) {
      await network.close();
      throw error;
    }
  }

  async #link(): Promise<void> {
    const node = this.at('node');
    await node.becomeNode(...NODE_ADDRESSES, ADDRESSES.IPv4.unknown, ADDRESSES.IPv6.unknown);
    // Otherwise a client is told only now and then that a port cannot be reached.
    const limits = ['net/ipv4/icmp_ratelimit', 'net/ipv6/icmp/ratelimit'].map((name) => `/proc/sys/${name}`);
    await Promise.all([...this.#places.values()].map((place) => place.must('tee', limits, '0')));
    for (const place of PLACES) await node.linkPeer(this.at(place), ...addressesAt(place));
    await node.ip('route', 'add', 'default', 'via', ADDRESSES.IPv4.web, 'src', ADDRESSES.IPv4.node);
    await node.ip('route', 'add', 'default', 'via', ADDRESSES.IPv6.web, 'src', ADDRESSES.IPv6.node);
    if (this.backEnd === 'legacy') await settleOn(node, 'legacy');
  }

  async #listen(): Promise<void> {
    const beyond = addressesAt('beyond').flatMap((address) =>
      (['tcp', 'udp'] as const).map((protocol) => this.at('beyond').listen(protocol, address, 80)),
    );
    const pods = FAMILIES.flatMap((family) => (['near', 'far'] as const).map((place) => [place, ADDRESSES[family][place]] as const));
    await Promise.all([
      ...beyond,
      ...pods.flatMap(([place, address]) => [80, 8443, 5353].map((port) => this.at(place).listen('tcp', address, port))),
      ...pods.map(([place, address]) => this.at(place).listen('udp', address, 53)),
    ]);
  }

  async close(): Promise<void> {
    await this.#role.close();
    await Promise.all([...this.#places.values()].map((place) => place.close()));
  }

  at(place: Place): Namespace {
    const found = this.#places.get(place);
    if (found === undefined) throw new Error(`no place ${place}`);
    return found;
  }

  /** The sidecar is another process from now on, which knows nothing of what was written. */
  async restartSidecar(): Promise<void> {
    await this.#role.close();
    this.#role = this.#newRole();
  }

  /** The node's rules become those of these services, and of nothing else. The sidecar has confirmed it when this returns. */
  async serve(services: readonly Service[], endpoints: Endpoints, options: Partial<IptablesOptions> = {}): Promise<void> {
    const cluster = state(services, endpointsOf(endpoints), [NODE]);
    await this.run(cluster, { clusterCIDRs: [ADDRESSES.IPv4.podRange, ADDRESSES.IPv6.podRange], ...options });
  }

  /** Likewise for a cluster; gives what was left out. */
  async run(cluster: ClusterState, options: Partial<IptablesOptions>): Promise<readonly Rejection[]> {
    const { files, rejections } = proxyFiles(cluster, options);
    const version = ++this.#versions;
    const target = { version, sequence: version, content: digestOf(JSON.stringify([...files])), movedAt: 0, files };
    const { outcome, message } = await this.#role.apply(target, never);
    if (outcome !== 'applied') throw new Error(`${outcome}: ${message}`);
    return rejections;
  }

  ask(place: Place, address: string, port: number, more: Partial<Question> = {}): Promise<Reply> {
    return this.at(place).ask({ protocol: 'tcp', address, port, ...more });
  }

  /** Asks until each of these servers has answered, and nobody else has; gives the sources that they saw. */
  async askForAll(
    place: Place,
    address: string,
    port: number,
    servers: readonly string[],
    more: Partial<Question> = {},
  ): Promise<string[]> {
    const missing = new Set(servers);
    const sources = new Set<string>();
    for (let attempt = 0; missing.size > 0; attempt++) {
      const reply = await this.ask(place, address, port, more);
      if ('error' in reply) throw new Error(`${place} -> ${addressPort(address, port)}: ${reply.error}`);
      if (!servers.includes(reply.server)) throw new Error(`${place} -> ${addressPort(address, port)} reached ${reply.server}`);
      // By chance alone one of two is missed for so long once in 2^60.
      if (attempt === 60) throw new Error(`${place} -> ${addressPort(address, port)} never reached ${[...missing].join(', ')}`);
      missing.delete(reply.server);
      sources.add(reply.client);
    }
    return [...sources];
  }

  #newRole(): RoleApplier {
    return iptablesRole({ node: NODE.name, logger: quiet, run: runIn(this.at('node')) });
  }
}

/** Beyond is the network's other side: it has the services' addresses, so that packets which no rule takes are answered all the same. */
function addressesAt(place: Exclude<Place, 'node'>): string[] {
  return FAMILIES.flatMap((family) => {
    const at = ADDRESSES[family];
    if (place === 'beyond') return [at.web, at.other, at.zero, at.external, at.balancer];
    return place === 'client' ? [at.client, at.stranger] : [at[place]];
  });
}

const NODE_ADDRESSES = FAMILIES.flatMap((family) => [ADDRESSES[family].node, ADDRESSES[family].node2]);

/** The node of the cluster that the rules are written on. */
export const NODE: ClusterNode = clusterNode('n1', {
  labels: { 'topology.kubernetes.io/zone': 'z1' },
  addresses: NODE_ADDRESSES.map((address) => ({ type: 'InternalIP', address })),
});
