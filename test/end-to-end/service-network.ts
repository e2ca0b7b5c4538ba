// A node with real rules between pods and clients, for tests that send packets. The node is n1; pods `near` and `idle`
// are on it, `far` stands for a pod of another node, `client` for somebody outside.

import type { IptablesOptions } from '../../functions/options.ts';
import type { ClusterNode, Service } from '../../functions/cluster/objects.ts';
import type { EndpointSubset } from '../../shared/endpoint.ts';
import { composeProxy } from '../../shared/iptables/compose.ts';
import { fullRestoreText } from '../../shared/iptables/restore-text.ts';
import { endpointsOf, node as clusterNode, proxyFiles, state } from '../functions/iptables/cluster.ts';
import { Namespace, type Question, type Reply } from './namespace.ts';

export type BackEnd = 'nft' | 'legacy';

/** Addresses of each place, IPv4 first. */
export const PLACES = {
  near: ['10.180.0.1', 'fd00:180::1'],
  idle: ['10.180.0.2', 'fd00:180::2'],
  far: ['10.180.2.1', 'fd00:180:2::1'],
  client: ['203.0.113.2', '203.0.114.2', 'fd00:203::2'],
  /** The network's other side: it has the service addresses, so that packets which no rule takes are answered all the same. */
  beyond: ['172.30.0.41', '172.30.0.42', '198.51.100.80', '198.51.100.81', 'fd00:30::129'],
} as const;
export type Place = keyof typeof PLACES;

export const NODE_ADDRESSES = ['192.168.0.2', '192.168.9.2', 'fd00:192::2'] as const;

export class ServiceNetwork {
  readonly node: Namespace;
  readonly #peers: ReadonlyMap<Place, Namespace>;
  readonly #backEnd: BackEnd;

  private constructor(node: Namespace, peers: ReadonlyMap<Place, Namespace>, backEnd: BackEnd) {
    this.node = node;
    this.#peers = peers;
    this.#backEnd = backEnd;
  }

  /** Everything linked, nothing listening, no rules. */
  static async create(backEnd: BackEnd): Promise<ServiceNetwork> {
    const peers = new Map<Place, Namespace>();
    const network = new ServiceNetwork(await Namespace.create('node'), peers, backEnd);
    try {
      await network.#link(peers);
      return network;
    } catch (error) {
      await network.close();
      throw error;
    }
  }

  async #link(peers: Map<Place, Namespace>): Promise<void> {
    await this.node.becomeNode(...NODE_ADDRESSES);
    for (const place of ['near', 'idle', 'far', 'client', 'beyond'] as const) {
      const peer = await Namespace.create(place);
      peers.set(place, peer);
      await this.node.linkPeer(peer, ...PLACES[place]);
    }
    await this.node.ip('route', 'add', 'default', 'via', PLACES.beyond[0], 'src', NODE_ADDRESSES[0]);
    await this.node.ip('route', 'add', 'default', 'via', 'fd00:30::129', 'src', NODE_ADDRESSES[2]);
  }

  async close(): Promise<void> {
    await Promise.all([this.node.close(), ...[...this.#peers.values()].map((peer) => peer.close())]);
  }

  at(place: Place | 'node'): Namespace {
    const found = place === 'node' ? this.node : this.#peers.get(place);
    if (found === undefined) throw new Error(`no place ${place}`);
    return found;
  }

  /** The node's rules become those of these services, and of nothing else. */
  async serve(
    services: readonly Service[],
    endpoints: Readonly<Record<string, readonly EndpointSubset[]>>,
    options: Partial<IptablesOptions> = {},
  ): Promise<void> {
    const { files } = proxyFiles(state(services, endpointsOf(endpoints), [NODE]), options);
    const { rulesets } = composeProxy(files, NODE.name);
    // Without --noflush the tables named in the text are emptied first.
    await this.node.must(`iptables-${this.#backEnd}-restore`, WAIT[this.#backEnd], fullRestoreText(rulesets.IPv4));
    await this.node.must(`ip6tables-${this.#backEnd}-restore`, WAIT[this.#backEnd], fullRestoreText(rulesets.IPv6));
  }

  ask(place: Place | 'node', address: string, port: number, more: Partial<Question> = {}): Promise<Reply> {
    return this.at(place).ask({ protocol: 'tcp', address, port, ...more });
  }

  /** Asks until each of these servers has answered, and nobody else has; gives the sources that they saw. */
  async askForAll(
    place: Place | 'node',
    address: string,
    port: number,
    servers: readonly string[],
    more: Partial<Question> = {},
  ): Promise<string[]> {
    const missing = new Set(servers);
    const sources = new Set<string>();
    for (let attempt = 0; missing.size > 0; attempt++) {
      const reply = await this.ask(place, address, port, more);
      if ('error' in reply) throw new Error(`${place} -> ${address}:${port}: ${reply.error}`);
      if (!servers.includes(reply.server)) throw new Error(`${place} -> ${address}:${port} reached ${reply.server}`);
      // By chance alone one of two is missed for so long once in 2^60.
      if (attempt === 60) throw new Error(`${place} -> ${address}:${port} never reached ${[...missing].join(', ')}`);
      missing.delete(reply.server);
      sources.add(reply.client);
    }
    return [...sources];
  }
}

/** Legacy waits for its lock for ever unless told. */
const WAIT: Readonly<Record<BackEnd, readonly string[]>> = { nft: [], legacy: ['-w', '10'] };

const NODE: ClusterNode = clusterNode('n1', {
  addresses: NODE_ADDRESSES.map((address) => ({ type: 'InternalIP', address })),
});
