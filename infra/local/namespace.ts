// The network namespace in which a local node lives: its own loopback, addresses and iptables state, joined to the machine by nothing.

import { access } from 'node:fs/promises';
import { HeadgateError } from '../../shared/error.ts';
import { runProgram } from '../../sidecar/run-program.ts';
import { NODE_ADDRESS } from './plan.ts';

/**
 * Makes the namespace anew. Every address that is not its own leads to one end of a veth pair, both of whose ends are inside: a cluster IP
 * has a way to be rewritten on, and, unlike on loopback, an ICMP error that refuses it comes back.
 */
export async function createNamespace(name: string): Promise<void> {
  await deleteNamespace(name);
  await ip('netns', 'add', name);
  const inside = ['-n', name];
  await ip(...inside, 'link', 'add', 'node0', 'type', 'veth', 'peer', 'name', 'outside0');
  for (const device of ['lo', 'node0', 'outside0']) await ip(...inside, 'link', 'set', device, 'up');
  await ip(...inside, 'address', 'add', `${NODE_ADDRESS}/32`, 'dev', 'node0');
  await ip(...inside, 'route', 'add', 'default', 'dev', 'node0', 'src', NODE_ADDRESS);
}

/** Adds a pod's address inside the namespace that this process runs in. Adding it twice is no error. */
export async function addPodAddress(address: string): Promise<void> {
  const prefix = address.includes(':') ? 128 : 32;
  await ip('address', 'replace', `${address}/${prefix}`, 'dev', 'lo', ...(prefix === 128 ? ['nodad'] : []));
}

export async function deleteNamespace(name: string): Promise<void> {
  const exists = await access(`/run/netns/${name}`).then(
    () => true,
    () => false,
  );
  if (exists) await ip('netns', 'delete', name);
}

/** Why this machine and user cannot have a namespace with iptables; null when they can. */
export async function whyNotIsolated(): Promise<string | null> {
  if (process.platform !== 'linux') return 'it needs Linux';
  if (process.getuid?.() !== 0) return 'it needs root';
  for (const program of [
    ['ip', '-V'],
    ['iptables', '--version'],
    ['ip6tables', '--version'],
  ]) {
    const found = await runProgram(program, { timeoutMs: 5_000 }).catch(() => null);
    if (found === null || found.code !== 0) return `${program[0] ?? ''} is missing; run sh infra/setup.sh`;
  }
  const probe = `headgate-probe-${process.pid}`;
  const made = await runProgram(['ip', 'netns', 'add', probe], { timeoutMs: 5_000 });
  if (made.code !== 0) return `network namespaces cannot be made here: ${made.stderr.trim()}`;
  await deleteNamespace(probe);
  return null;
}

async function ip(...argv: string[]): Promise<void> {
  const result = await runProgram(['ip', ...argv], { timeoutMs: 10_000 });
  if (result.code === 0) return;
  throw new HeadgateError('ip-failed', 'serve', `ip ${argv.join(' ')}: ${result.stderr.trim()}`);
}
