// SCTP services. Few kernels have SCTP sockets, but rules act on packets: both ends make theirs by hand (sctp-peer.pl).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { addressPort } from '../../shared/iptables/addresses.ts';
import { runProgram } from '../../sidecar/run-program.ts';
import { endpoint, port, service, subset } from '../functions/iptables/cluster.ts';
import type { Reply } from './namespace.ts';
import { onNodes, type Place, REFUSED, type ServiceNetwork, TIMEOUT } from './service-network.ts';

const PEER = fileURLToPath(new URL('sctp-peer.pl', import.meta.url));

const skip = await runProgram(['perl', '-e', 'use Socket; socket(my $s, AF_INET, SOCK_RAW, 132) or die "$!\n"']).then(
  ({ code, stderr }) => (code === 0 ? false : `needs a raw socket for SCTP: ${stderr.trim()}`),
  () => 'needs the program perl',
);

/** Answers SCTP at the address until the network is closed. */
async function listen(network: ServiceNetwork, place: Place, address: string, number: number): Promise<void> {
  const child = network.at(place).spawn('perl', [PEER, 'listen', address, String(number)]);
  let complaint = '';
  child.stderr?.on('data', (chunk) => (complaint += String(chunk)));
  await new Promise<void>((resolve, reject) => {
    child.stdout?.once('data', () => resolve());
    child.once('exit', () => reject(new Error(complaint)));
  });
}

async function ask(network: ServiceNetwork, place: Place, from: string, address: string, number: number, seconds = 5): Promise<Reply> {
  return JSON.parse(await network.at(place).must('perl', [PEER, 'ask', from, address, String(number), String(seconds)]));
}

onNodes('SCTP', (network, at) => {
  const signalling = service({
    type: 'NodePort',
    clusterIPs: [at.web],
    externalIPs: [at.external],
    ports: [{ name: 'm3ua', port: 2905, protocol: 'SCTP', nodePort: 30_905 }],
  });
  const served = { 'ns1/svc1': [subset([port('m3ua', 2906, 'SCTP')], [endpoint(at.near, { node: 'n1' })], at.family)] };
  const server = addressPort(at.near, 2906);

  test('associations reach the endpoint, pods keep their address and others are masqueraded', { skip }, async () => {
    await listen(network(), 'near', at.near, 2906);
    await network().serve([signalling], served);
    const replies = await Promise.all([
      ask(network(), 'idle', at.idle, at.web, 2905),
      ask(network(), 'client', at.client, at.web, 2905),
      ask(network(), 'client', at.client, at.external, 2905),
      ask(network(), 'client', at.client, at.node, 30_905),
      ask(network(), 'near', at.near, at.web, 2905),
    ]);
    assert.deepEqual(replies, [
      { server, client: at.idle },
      { server, client: at.node },
      { server, client: at.node },
      { server, client: at.node },
      { server, client: at.node },
    ]);
  });

  test('the policy Local keeps the source, and is silent without an endpoint of the node', { skip }, async () => {
    const local = { ...signalling, externalTrafficPolicy: 'Local' };
    await network().serve([local], served);
    assert.deepEqual(await ask(network(), 'client', at.client, at.node, 30_905), { server, client: at.client });
    await network().serve([local], { 'ns1/svc1': [subset([port('m3ua', 2906, 'SCTP')], [endpoint(at.far, { node: 'n2' })], at.family)] });
    assert.deepEqual(await ask(network(), 'client', at.client, at.node, 30_905, 1), TIMEOUT);
  });

  test('without endpoints clients are told', { skip }, async () => {
    await network().serve([signalling], {});
    const replies = await Promise.all([
      ask(network(), 'idle', at.idle, at.web, 2905),
      ask(network(), 'client', at.client, at.external, 2905),
      ask(network(), 'client', at.client, at.node, 30_905),
    ]);
    assert.deepEqual(replies, [REFUSED, REFUSED, REFUSED]);
  });
});
