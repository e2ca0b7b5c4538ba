// Health-check node ports: at which addresses a node answers a load balancer's question whether it has endpoints of its own
// for a service whose external policy is Local, and with what. As kube-proxy answers it.

import { compareText } from '../json.ts';
import { listeningAddresses } from './node-chains.ts';
import type { HealthCheck } from './ruleset.ts';
import { selectReadyHere } from './select.ts';
import type { ProxyService } from './service.ts';
import type { Situation } from './service-view.ts';

/** A service's health-check node port on a node, for one family. */
export type ServiceHealth = Pick<HealthCheck, 'port' | 'namespace' | 'name' | 'localEndpoints'>;

/** None when the service has no such port. */
export function serviceHealth(service: ProxyService, { family, node }: Situation): ServiceHealth[] {
  const { namespace, name, healthCheckNodePort: port } = service;
  return port === 0 ? [] : [{ port, namespace, name, localEndpoints: selectReadyHere(service, family, node).size }];
}

/** What is answered at each address. A port that several services name belongs to the first of them by namespace and name. */
export function answeredHealthChecks(situation: Situation, services: readonly ServiceHealth[]): HealthCheck[] {
  const sorted = [...services].sort((a, b) => a.port - b.port || compareText(a.namespace, b.namespace) || compareText(a.name, b.name));
  const first = sorted.filter(({ port }, index) => sorted[index - 1]?.port !== port);
  return first.flatMap((health) => listeningAddresses(situation).map((address) => ({ address, ...health })));
}
