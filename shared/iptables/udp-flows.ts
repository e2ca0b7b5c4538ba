// UDP has no connection that ends: conntrack keeps sending a client to an endpoint that is gone. This says by whom each UDP
// service is served now, so that flows which lead elsewhere can be forgotten. Every endpoint that serves counts, also one that policy or
// topology would not choose any more, or that terminates: what began there may end there.

import { compareText } from '../json.ts';
import { addressPort } from './addresses.ts';
import { listeningAddresses } from './node-chains.ts';
import type { ServiceView } from './service-view.ts';

/** `address:port` of a UDP service (a node port at every address: `0.0.0.0:30053`, `[::]:30053`), and `address:port` of its endpoints, sorted. */
export type UdpFlow = readonly [place: string, targets: readonly string[]];

/** Where the addresses of a service's port may lead; none for other protocols. */
export function udpFlows({ port, selection, situation, clusterIPs, externalIPs, loadBalancerIPs }: ServiceView): UdpFlow[] {
  if (port.protocol !== 'UDP') return [];
  const targets = selection.serving.map(({ text }) => text).sort(compareText);
  const addresses = [...clusterIPs, ...externalIPs, ...loadBalancerIPs].map((address) => addressPort(address, port.port));
  const onNode = port.nodePort === 0 ? [] : listeningAddresses(situation).map((address) => addressPort(address, port.nodePort));
  return [...addresses, ...onNode].map((place) => [place, targets]);
}
