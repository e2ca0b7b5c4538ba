// Flags that several commands take, with the environment variables that stand in for them, and how their values are checked.

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { HeadgateError } from '../../shared/error.ts';
import type { Listen } from '../../shared/listen.ts';
import { isRole, type Role } from '../../shared/role.ts';

/** Where `headgate up` keeps its store when it is told nothing else: the default of the commands that operate on a store. */
export const DEFAULT_STATE = '.headgate';

/** Ports that `headgate up` takes, one after the other. */
const LOCAL_PORTS = 5;

export const storeFlag = (): Option =>
  new Option('--store <url>', 'store: file:///path (default: the store of `headgate up` in this folder)').env('HEADGATE_STORE');
export const clusterFlag = (): Option =>
  new Option('--cluster <path>', 'manifests: a file, a folder, or - for standard input').makeOptionMandatory();
export const optionsFlag = (): Option => new Option('--options <file>', 'options (YAML)').env('HEADGATE_OPTIONS');
export const tokenFileFlag = (): Option =>
  new Option('--token-file <file>', 'file with the token that nodes show').env('HEADGATE_TOKEN_FILE');
export const sealingKeyFlag = (): Option =>
  new Option('--sealing-key <file>', 'key that seals private keys in the store (32 bytes, base64)').env('HEADGATE_SEALING_KEY');
export const jsonFlag = (): Option => new Option('--json', 'print JSON');

/** The store that a command works on. */
export function storeUrl(given: string | undefined): string {
  if (given !== undefined && given !== '') return given;
  const local = resolve(DEFAULT_STATE, 'store');
  if (existsSync(local)) return pathToFileURL(local).href;
  throw new HeadgateError('no-store', 'usage', 'which store? give --store URL (file:///path) or set HEADGATE_STORE');
}

/** `HOST:PORT`, `[IPv6]:PORT` or `:PORT` (every address). */
export function parseListen(text: string): Listen {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) throw new InvalidArgumentError('expected HOST:PORT, for example 127.0.0.1:8080');
  return { host: match[1] ?? (match[2] === '' ? '::' : (match[2] ?? '::')), port };
}

/** A version's number as people write it: `7` or `v7`. */
export function parseVersion(text: string): number {
  const match = /^v?([1-9]\d{0,15})$/.exec(text);
  if (match === null) throw new InvalidArgumentError('expected a version number, for example 7');
  return Number(match[1]);
}

export function parseReason(text: string): string {
  if (text.trim() === '' || text.length > 1024)
    throw new InvalidArgumentError('say why, in at most 1024 characters: it is kept in the history');
  return text.trim();
}

export function parseRoles(text: string): Role[] {
  const names = text.split(',').map((name) => name.trim());
  const roles = names.filter(isRole);
  if (roles.length !== names.length) throw new InvalidArgumentError('expected router, service-proxy, or both with a comma between');
  return [...new Set(roles)];
}

/** The first of the ports of `up`. */
export function parsePortBase(text: string): number {
  const last = 65_535 - (LOCAL_PORTS - 1);
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1 || port > last) throw new InvalidArgumentError(`expected a port, 1 to ${last}`);
  return port;
}

export function parseLimit(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('expected a number above 0, for example 50');
  return Number(text);
}

const NODE_NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

export function parseNodeName(text: string): string {
  if (!NODE_NAME.test(text)) throw new InvalidArgumentError('expected the name of a Kubernetes Node, for example worker-1');
  return text;
}

export function parseStreams(text: string): string[] {
  const addresses = text.split(',').map((address) => address.trim());
  if (addresses.some((address) => !/^wss?:\/\/[^\s/]+(\/\S*)?$/.test(address))) {
    throw new InvalidArgumentError('expected ws://HOST:PORT/stream, several with a comma between');
  }
  return addresses;
}

/** Examples under a command's help. */
export function examples(command: Command, lines: readonly string[]): Command {
  return command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}`);
}

/** The author recorded with a move of the head: who is at this terminal. */
export function author(): string {
  return process.env['HEADGATE_AUTHOR'] ?? process.env['SUDO_USER'] ?? process.env['USER'] ?? 'cli';
}

/** Ctrl-C under `npm run` comes twice, from the terminal and from npm: signals so close together (ms) are one. */
const SAME_SIGNAL_MS = 1_500;

/** Aborted by SIGTERM, SIGINT or SIGHUP; when another follows later, the process ends at once. */
export function stopSignal(): AbortSignal {
  const controller = new AbortController();
  let first = 0;
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(name, () => {
      if (controller.signal.aborted && performance.now() - first > SAME_SIGNAL_MS) process.exit(1);
      if (!controller.signal.aborted) first = performance.now();
      controller.abort();
    });
  }
  return controller.signal;
}
