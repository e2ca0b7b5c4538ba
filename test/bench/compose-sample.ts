// One sample of compose.ts, in a process of its own: `compose-sample.ts SERVICES`.

import type { ClusterState } from '../../functions/cluster/objects.ts';
import { admitServices } from '../../functions/iptables/admit.ts';
import { buildProxy } from '../../functions/iptables/build.ts';
import { renderProxy } from '../../functions/iptables/render.ts';
import type { Files } from '../../shared/files.ts';
import { composeProxy } from '../../shared/iptables/compose.ts';
import { fullRestoreText } from '../../shared/iptables/restore-text.ts';
import { ComposeMemory } from '../../shared/iptables/shard-rules.ts';
import { endpoint, endpointsOf, node, OPTIONS, port, service, state, subset } from '../functions/iptables/cluster.ts';
import { cpuSeconds } from './subject.ts';

const KERNEL = { conntrackLiberal: false, randomFully: true };
const PODS = [0, 1, 2, 3, 4];

const count = Number(process.argv[2]);
const [clusterBefore, clusterAfter] = [clusterOf(count, 0), clusterOf(count, 100)];
let before: Files = new Map();
const render = cpuSeconds(() => (before = filesOf(clusterBefore)));
const after = filesOf(clusterAfter);
const memory = new ComposeMemory();
const first = cpuSeconds(() => composeProxy(before, 'n0', KERNEL, memory));
const again = cpuSeconds(() => composeProxy(after, 'n0', KERNEL, memory));
const { rulesets } = composeProxy(after, 'n0', KERNEL, memory);
const print = cpuSeconds(() => fullRestoreText(rulesets.IPv4));
process.stdout.write(JSON.stringify({ render, first, again, print }));

/** @param shift moves the pods of the first service elsewhere */
function clusterOf(size: number, shift: number): ClusterState {
  const numbers = Array.from({ length: size }, (_, index) => index);
  const services = numbers.map((index) => {
    const address = `172.${16 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
    return service({ namespace: 'ns', name: `s${index}`, clusterIPs: [address], ports: [{ name: 'http', port: 80 }] });
  });
  const endpoints = numbers.map((index) => {
    const moved = index === 0 ? shift : 0;
    const pods = PODS.map((pod) => endpoint(`10.${pod + 1 + moved}.${index >> 8}.${index & 255}`, { node: `n${pod}` }));
    return [`ns/s${index}`, [subset([port('http', 8080)], pods)]] as const;
  });
  return state(
    services,
    endpointsOf(Object.fromEntries(endpoints)),
    PODS.map((pod) => node(`n${pod}`)),
  );
}

function filesOf(cluster: ClusterState): Files {
  return renderProxy(buildProxy(admitServices(cluster, OPTIONS), cluster.endpoints, cluster.nodes));
}
