// The service proxy's part of a version: `iptables/...`, in shards, the same for every node.

import type { Files } from '../../shared/files.ts';
import { PROXY_PATHS } from '../../shared/iptables/service.ts';
import { canonicalJson } from '../../shared/json.ts';
import { shardEntries } from '../../shared/shard.ts';
import type { ProxyModel } from './build.ts';

/** The model as files. */
export function renderProxy({ options, services, nodes }: ProxyModel): Files {
  return new Map([
    [PROXY_PATHS.options, `${canonicalJson(options)}\n`],
    ...shardEntries(PROXY_PATHS.services, services, (service) => `${service.namespace}/${service.name}`),
    ...shardEntries(PROXY_PATHS.nodes, nodes, (node) => node.name),
  ]);
}
