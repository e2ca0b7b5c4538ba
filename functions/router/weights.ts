// Weights of servers: how the weights of a route's services, which share traffic between services, become weights of
// servers, which HAProxy shares traffic by. In integers only: floating point differs from the exact result.

export interface ServiceShare {
  /** 0..256. */
  readonly weight: number;
  readonly endpoints: number;
}

/**
 * The weight of each server of each service, 0..256. The service with the largest share per endpoint gets 256, the others
 * `max(1, floor(256 * w_i * n_m / (n_i * w_m)))`; 1 when one service alone takes part; 0 for a service without weight
 * or without endpoints.
 */
export function serverWeights(services: readonly ServiceShare[]): number[] {
  const taking = services.filter(takesPart);
  if (taking.length <= 1) return services.map((service) => (takesPart(service) ? 1 : 0));
  const largest = taking.reduce((best, service) => (service.weight * best.endpoints > best.weight * service.endpoints ? service : best));
  return services.map((service) =>
    takesPart(service) ? Math.max(1, Math.floor((256 * service.weight * largest.endpoints) / (service.endpoints * largest.weight))) : 0,
  );
}

function takesPart(service: ServiceShare): boolean {
  return service.weight > 0 && service.endpoints > 0;
}
