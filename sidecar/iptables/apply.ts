// The service-proxy role: composes this node's rules from a version's shards and makes the node hold them, then cleans up
// what rules alone do not undo.

import { errorMessage, HeadgateError } from '../../shared/error.ts';
import { composeProxy } from '../../shared/iptables/compose.ts';
import type { NodeKernel } from '../../shared/iptables/node-chains.ts';
import type { ProxyState } from '../../shared/iptables/ruleset.ts';
import { ComposeMemory } from '../../shared/iptables/shard-rules.ts';
import type { Logger } from '../../shared/logger.ts';
import type { Metrics } from '../../shared/prometheus.ts';
import type { RoleApplier, RoleOutcome, RoleTarget } from '../role.ts';
import { type RunProgram, runProgram } from '../run-program.ts';
import { ConntrackCleaner } from './conntrack.ts';
import type { HealthCheckListeners } from './health-check-servers.ts';
import { readKernel } from './node-kernel.ts';
import { NodeRules } from './node-rules.ts';
import { ProxyMetrics } from './proxy-metrics.ts';
import { RouteLocalnet } from './route-localnet.ts';

export interface IptablesRoleOptions {
  /** The Node's name: it selects local endpoints, zone and addresses. */
  readonly node: string;
  readonly logger: Logger;
  /** Runs iptables, conntrack, and what reads and sets kernel settings; default: in this process's network namespace. */
  readonly run?: RunProgram;
  /** Milliseconds on a clock that only goes forward. */
  readonly now?: () => number;
  /** Where it counts; default: nowhere. */
  readonly metrics?: Metrics;
  /** What listens at health-check node ports; default: nothing. */
  readonly healthChecks?: HealthCheckListeners;
  /** Where a kube-proxy answers on this node, or null; default: nobody looks. */
  readonly findKubeProxy?: () => Promise<string | null>;
}

/** Codes of errors that say that the content is bad, not the node. */
const REFUSALS: ReadonlySet<string> = new Set(['rules-refused', 'bad-content']);

/** The applier of the service-proxy role. It keeps nothing on disk: rules are read back after a start. */
export function iptablesRole({
  node,
  logger,
  run = runProgram,
  now = () => performance.now(),
  metrics,
  healthChecks,
  findKubeProxy = async () => null,
}: IptablesRoleOptions): RoleApplier {
  const counted = new ProxyMetrics(metrics);
  const rules = new NodeRules({ run, logger, now, onRestoreFailed: (load) => counted.restoreFailed(load) });
  const flows = new ConntrackCleaner(run, logger);
  const routeLocalnet = new RouteLocalnet(run);
  const memory = new ComposeMemory();

  async function bring(target: RoleTarget, signal: AbortSignal): Promise<Pick<RoleOutcome, 'how'>> {
    const started = now();
    const first = rules.written === null;
    const tool = await rules.tool(signal);
    const state = composed(target, node, await readKernel(run, tool), memory);
    if (!state.routeLocalnet) await routeLocalnet.turnOff();
    const written = await rules.write(state.rulesets, signal);
    flows.committed(state.udp, first ? rules.udpFound : []);
    if (state.routeLocalnet) await routeLocalnet.turnOn();
    await flows.clean(signal);
    await healthChecks?.show(state.healthChecks);
    const durationMs = now() - started;
    const rulesets = tool.families.map((family) => state.rulesets[family]);
    counted.synced({ how: written.how, durationMs, movedAt: target.movedAt, rulesets });
    logger.info({ version: target.version, ...written, ms: Math.round(durationMs) }, 'service rules applied');
    return written;
  }

  return {
    role: 'service-proxy',
    async tools() {
      const { backEnd, version } = await rules.tool(AbortSignal.timeout(60_000));
      return { iptables: `${version} (${backEnd})` };
    },
    needs: (digests) => memory.unknownPaths(digests, node),
    async apply(target, signal) {
      const started = now();
      const durationMs = (): number => Math.round(now() - started);
      try {
        const { how } = await bring(target, signal);
        return { outcome: 'applied', how, stage: null, message: '', durationMs: durationMs() };
      } catch (error) {
        const { outcome, stage } = judged(error);
        return { outcome, how: null, stage, message: errorMessage(error), durationMs: durationMs() };
      }
    },
    async repairDrift(signal) {
      await flows.clean(signal);
      const repaired = await rules.repair(signal);
      const kubeProxy = repaired.length === 0 ? null : await findKubeProxy();
      if (kubeProxy !== null) logger.warn({ at: kubeProxy }, 'kube-proxy runs on this node and writes the same chains; stop it');
      return { repaired };
    },
    async ready() {
      return rules.written !== null;
    },
    async close() {
      await healthChecks?.close();
    },
  };
}

function composed(target: RoleTarget, node: string, kernel: NodeKernel, memory: ComposeMemory): ProxyState {
  try {
    return composeProxy(target.files, node, kernel, memory, target.digests);
  } catch (cause) {
    throw new HeadgateError(
      'bad-content',
      'plan',
      `version ${target.version} cannot be composed for node ${node}: ${errorMessage(cause)}`,
      { cause },
    );
  }
}

function judged(error: unknown): Pick<RoleOutcome, 'outcome' | 'stage'> {
  if (!(error instanceof HeadgateError)) return { outcome: 'failed', stage: 'apply' };
  return { outcome: REFUSALS.has(error.code) ? 'refused' : 'failed', stage: error.stage };
}
