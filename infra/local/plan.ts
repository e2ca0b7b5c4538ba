// What `headgate up` sets up, decided before anything is started: folders, ports, and whether the node gets a network namespace.

import { join } from 'node:path';
import { z } from 'zod';
import { digestOf } from '../../shared/digest.ts';

export const localPlanSchema = z.object({
  state: z.string(),
  cluster: z.string(),
  /** Name of the network namespace in which the node lives; null: none, the node shares the machine's network. */
  namespace: z.string().nullable(),
  ports: z.object({ http: z.number(), https: z.number(), stats: z.number(), functions: z.number(), sidecar: z.number() }),
});

export type LocalPlan = z.infer<typeof localPlanSchema>;

/** The Node object of the sample cluster, and the address that it names. */
export const NODE_NAME = 'local';
export const NODE_ADDRESS = '192.168.77.2';

/** Where the pods of the sample have their addresses: in the namespace, and on loopback where there is none. */
export const SAMPLE_PODS = '10.180.';
export const LOOPBACK_PODS = '127.180.';

export interface LocalFlags {
  readonly state: string;
  readonly cluster: string | null;
  readonly portBase: number;
  readonly isolated: boolean;
}

export function localPlan(flags: LocalFlags): LocalPlan {
  const base = flags.portBase;
  return {
    state: flags.state,
    cluster: flags.cluster ?? join(flags.state, 'cluster'),
    namespace: flags.isolated ? `headgate-${digestOf(flags.state).slice(0, 8)}` : null,
    ports: { http: base, https: base + 1, stats: base + 2, functions: base + 3, sidecar: base + 4 },
  };
}

/** The Unix socket that carries a port across the namespace's border. */
export function relaySocket(plan: LocalPlan, port: number): string {
  return join(plan.state, 'relay', `${port}.sock`);
}

/** Ports that the namespace serves to the machine; `functions` goes the other way. */
export function servedPorts(plan: LocalPlan): number[] {
  const { http, https, stats, sidecar } = plan.ports;
  return [http, https, stats, sidecar];
}

/** The options (YAML) under which the local functions compute. */
export function localOptions(plan: LocalPlan): string {
  return [
    '# Written by `headgate up`.',
    'router:',
    '  bindAddress: 127.0.0.1',
    `  httpPort: ${plan.ports.http}`,
    `  httpsPort: ${plan.ports.https}`,
    `  statsPort: ${plan.ports.stats}`,
    '  allowWildcardRoutes: true',
    '  domain: apps.example.test',
    `  allowLoopbackEndpoints: ${plan.namespace === null}`,
    '',
  ].join('\n');
}

/** The node's state folder. */
export function sidecarState(plan: LocalPlan): string {
  return join(plan.state, 'node');
}

export function planFile(plan: LocalPlan): string {
  return join(plan.state, 'plan.json');
}
