// The sidecar as a program: the router by HAProxy, the service proxy by iptables, until it is told to stop. What it started
// (HAProxy) and wrote (rules) stays.

import { once } from 'node:events';
import { access, constants } from 'node:fs/promises';
import { errorMessage, HeadgateError } from '../shared/error.ts';
import type { Listen } from '../shared/listen.ts';
import type { Logger } from '../shared/logger.ts';
import type { Metrics } from '../shared/prometheus.ts';
import type { Role } from '../shared/role.ts';
import { readSealingKey } from '../shared/sealing-key-file.ts';
import { claimRole, type RoleClaim } from './claim.ts';
import { haproxyRole } from './haproxy/apply.ts';
import { findHaproxy } from './haproxy/capabilities.ts';
import { iptablesRole } from './iptables/apply.ts';
import { type Cleaned, cleanupIptables } from './iptables/cleanup.ts';
import { HealthCheckServers } from './iptables/health-check-servers.ts';
import { findKubeProxy, refuseKubeProxy } from './iptables/kube-proxy.ts';
import { detectTool } from './iptables/tool.ts';
import type { RoleApplier } from './role.ts';
import { runProgram } from './run-program.ts';
import { startSidecar } from './sidecar.ts';
import { keepHeapSmall } from './small-heap.ts';

export interface SidecarConfig {
  /** The Node's name. */
  readonly node: string;
  /** `ws://HOST:PORT/stream`, at least one. */
  readonly addresses: readonly string[];
  /** The state folder; made when it is absent. */
  readonly state: string;
  readonly tokenFile: string;
  /** At least one. */
  readonly roles: readonly Role[];
  /** HAProxy's path, or its name in PATH. */
  readonly haproxy: string;
  /** Null: ours. */
  readonly reloadScript: string | null;
  readonly sealingKeyFiles: readonly string[];
  /** The service proxy starts although a kube-proxy runs on this node. */
  readonly takeOver: boolean;
  /** Where /healthz, /readyz and /metrics are served; null: nowhere. */
  readonly listen: Listen | null;
}

/**
 * Runs until the signal is aborted.
 * @throws HeadgateError when a role or the state folder is in use, the port is taken, a key cannot be read, the reload script cannot be run,
 *   or no role can run on this node
 */
export async function runSidecar(
  config: SidecarConfig,
  { signal, logger }: { readonly signal: AbortSignal; readonly logger: Logger },
): Promise<void> {
  keepHeapSmall();
  const sealingKeys = await Promise.all(config.sealingKeyFiles.map(readSealingKey));
  await checkReloadScript(config.reloadScript);
  await checkNode(config, signal, logger);
  const claims: RoleClaim[] = [];
  try {
    for (const role of config.roles) claims.push(await claimRole(role));
    const { node, addresses, state, tokenFile, listen } = config;
    const roles = new Map(
      config.roles.map((role) => [role, (folder: string, metrics: Metrics) => openRole(role, config, folder, { metrics, logger })]),
    );
    const sidecar = await startSidecar({ node, addresses, state, tokenFile, roles, sealingKeys, listen, logger });
    if (!signal.aborted) await once(signal, 'abort');
    await sidecar.close();
  } finally {
    await Promise.all(claims.map((claim) => claim.release()));
  }
}

/**
 * Removes the service proxy's rules from this node, for good or because kube-proxy serves it again.
 * @throws HeadgateError `role-in-use` (stage `serve`) while a sidecar would put them back; those of `cleanupIptables`
 */
export async function cleanUp({ signal, logger }: { readonly signal: AbortSignal; readonly logger: Logger }): Promise<Cleaned> {
  const claim = await claimRole('service-proxy');
  try {
    return await cleanupIptables({ logger, signal, kubeProxyRuns: (await findKubeProxy()) !== null });
  } finally {
    await claim.release();
  }
}

async function openRole(
  role: Role,
  config: SidecarConfig,
  stateDirectory: string,
  { metrics, logger }: { readonly metrics: Metrics; readonly logger: Logger },
): Promise<RoleApplier> {
  if (role === 'service-proxy') {
    if (!config.takeOver) await refuseKubeProxy();
    return iptablesRole({ node: config.node, logger, metrics, healthChecks: new HealthCheckServers(logger), findKubeProxy });
  }
  const { haproxy, reloadScript } = config;
  return haproxyRole({ stateDirectory, haproxy, logger, ...(reloadScript === null ? {} : { reloadScript }) });
}

/** Found out now rather than at the first reload, which may be days away. */
async function checkReloadScript(path: string | null): Promise<void> {
  if (path === null) return;
  await access(path, constants.X_OK).catch((cause: unknown) => {
    const message = `the reload script ${path} cannot be run; name a program with --reload-script PATH, or leave the flag out to use ours`;
    throw new HeadgateError('bad-reload-script', 'serve', message, { cause });
  });
}

/**
 * A role that cannot run yet does not stop the other: its tool may be installed later, kube-proxy may be stopped. With none at all there is
 * nothing to run.
 */
async function checkNode({ roles, haproxy, takeOver }: SidecarConfig, signal: AbortSignal, logger: Logger): Promise<void> {
  const checks = roles.map(async (role) => {
    if (role === 'router') return findHaproxy(haproxy);
    if (!takeOver) await refuseKubeProxy();
    return detectTool(runProgram, signal);
  });
  const missing = (await Promise.allSettled(checks)).flatMap((check, index) => {
    return check.status === 'rejected' ? [{ role: roles[index], reason: check.reason as unknown }] : [];
  });
  if (signal.aborted) return;
  if (missing.length === roles.length) throw missing[0]?.reason;
  for (const { role, reason } of missing) logger.error({ role, error: errorMessage(reason) }, `${role} cannot run on this node yet`);
}
