// Service-proxy configuration: what the admitted services ask for, judged and typed, without anything about endpoints and
// nodes. This is what a version stores of the service proxy (`configuration/service-proxy/...`), so that its rules can be
// computed again with other endpoints. All of it is plain JSON.

import { canonicalJson } from '../../shared/json.ts';
import type { ProxyService } from '../../shared/iptables/service.ts';
import type { Rejection } from '../../shared/rejection.ts';
import { shardEntries } from '../../shared/shard.ts';
import type { IptablesOptions } from '../options.ts';

/** A service that is ours to serve. */
export type AdmittedService = Omit<ProxyService, 'endpoints'>;

export interface ProxyConfiguration {
  /** Sorted by namespace and name. */
  readonly services: readonly AdmittedService[];
  readonly options: IptablesOptions;
  /** What admission left out, sorted. */
  readonly rejections: readonly Rejection[];
}

/** The configuration as files of a version: `configuration/service-proxy/...`. */
export function proxyConfigurationFiles(configuration: ProxyConfiguration): Map<string, string> {
  const { services, rejections, ...base } = configuration;
  return new Map([
    ['configuration/service-proxy/base', `${canonicalJson(base)}\n`],
    ...shardEntries('configuration/service-proxy/services', services, (service) => `${service.namespace}/${service.name}`),
    ...shardEntries('configuration/service-proxy/rejections', rejections, (rejection) => `${rejection.namespace}/${rejection.name}`),
  ]);
}
