// UDP has no connection that ends: conntrack keeps sending a client to an endpoint that is gone. This says where each UDP
// service may lead on a node now, so that what leads elsewhere can be forgotten.

import { compareText } from '../json.ts';
import { addressPort } from './addresses.ts';
import { listeningAddresses } from './node-chains.ts';
import type { TrafficPolicy } from './service.ts';
import type { ServiceView } from './service-view.ts';

/** `address:port` of a UDP service (a node port at every address: `0.0.0.0:30053`, `[::]:30053`), and `address:port` of its endpoints here, sorted. */
export type UdpFlow = readonly [place: string, targets: readonly string[]];

/** Where the addresses of a service's port lead; none for other protocols. */
export function udpFlows(view: ServiceView): UdpFlow[] {
  const { port, service, situation } = view;
  if (port.protocol !== 'UDP') return [];
  const outside = [...view.externalIPs, ...view.loadBalancerIPs].map((address) => addressPort(address, port.port));
  const onNode = port.nodePort === 0 ? [] : listeningAddresses(situation).map((address) => addressPort(address, port.nodePort));
  const inside = view.clusterIPs.map((address) => addressPort(address, port.port));
  return [
    ...inside.map((place): UdpFlow => [place, targetsOf(view, [service.internalPolicy])]),
    ...[...outside, ...onNode].map((place): UdpFlow => [place, targetsOf(view, ['Cluster', service.externalPolicy])]),
  ];
}

function targetsOf({ selection }: ServiceView, policies: readonly TrafficPolicy[]): string[] {
  const reached = policies.flatMap((policy) => (policy === 'Local' ? selection.local : selection.cluster));
  return [...new Set(reached.map(({ text }) => text))].sort(compareText);
}
