// Which HAProxy is installed, and what a version of it can do. The one that runs may be older than the one installed.

import { access, constants } from 'node:fs/promises';
import { delimiter, join, resolve } from 'node:path';
import { HeadgateError } from '../../shared/error.ts';
import { runProgram } from '../run-program.ts';

export interface InstalledHaproxy {
  /** Absolute: HAProxy starts itself anew with it when it reloads, from another working directory. */
  readonly path: string;
  /** As HAProxy prints it, e.g. `2.6.12-1+deb12u4`. */
  readonly version: string;
}

export interface Capabilities {
  /** `add server` and `del server`, without which every change of endpoints is a reload. */
  readonly addServer: boolean;
}

/** The oldest release whose sockets do what we rely on. Our templates need more; `-c` says so, and templates can be replaced. */
const OLDEST: readonly [number, number] = [2, 4];

/** What a version can do. */
export function capabilitiesOf(version: string): Capabilities {
  return { addServer: isAtLeast(version, [2, 6]) };
}

/**
 * Finds HAProxy by a path or by its name in PATH, and asks it for its version.
 * @throws HeadgateError `haproxy-missing` or `haproxy-unusable` (stage `serve`), with what to do about it
 */
export async function findHaproxy(program: string): Promise<InstalledHaproxy> {
  const path = await locate(program);
  if (path === null) {
    const what = `no HAProxy to run at ${JSON.stringify(program)}; install it (apt-get install haproxy) or pass --haproxy PATH`;
    throw new HeadgateError('haproxy-missing', 'serve', what);
  }
  const version = await versionOf(path);
  if (!isAtLeast(version, OLDEST)) {
    throw new HeadgateError('haproxy-unusable', 'serve', `${path} is HAProxy ${version}; ${OLDEST.join('.')} or newer is needed`);
  }
  return { path, version };
}

/** Where Debian installs it; the PATH of a user who is not root lacks them. */
const SYSTEM_FOLDERS = ['/usr/sbin', '/sbin'];

async function locate(program: string): Promise<string | null> {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== ''), ...SYSTEM_FOLDERS];
  const candidates = program.includes('/') ? [resolve(program)] : folders.map((folder) => join(folder, program));
  for (const candidate of candidates) {
    const executable = await access(candidate, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (executable) return candidate;
  }
  return null;
}

async function versionOf(path: string): Promise<string> {
  const unusable = (cause?: unknown): HeadgateError =>
    new HeadgateError('haproxy-unusable', 'serve', `${path} does not say that it is HAProxy; pass --haproxy PATH`, { cause });
  const { stdout } = await runProgram([path, '-v'], { timeoutMs: 10_000 }).catch((cause: unknown) => {
    throw unusable(cause);
  });
  const version = /^HA-?Proxy version (\S+)/m.exec(stdout)?.[1];
  if (version === undefined) throw unusable();
  return version;
}

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [ofMajor = 0, ofMinor = 0] = version.split(/[.-]/).map(Number);
  return ofMajor > major || (ofMajor === major && ofMinor >= minor);
}
