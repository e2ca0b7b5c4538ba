// Why only a reload gets from one configuration to the next, in words, one for each thing that differs. Pure.

import type { BackendState } from '../../shared/router/state.ts';
import { compareText } from '../../shared/json.ts';
import type { RouterContents } from './contents.ts';

/** Everything that differs and is neither a server nor a map entry, in a fixed order; empty: no reload is needed for it. */
export function planReasons(from: RouterContents, to: RouterContents): string[] {
  return [
    ...differences(from.fixedFiles, to.fixedFiles, sameBytes).map(({ key, how }) => fileReason(key, how)),
    ...differences(from.backends, to.backends, sameBackend).map(({ key, how }) => `backend ${how}: ${key}`),
    ...differences(from.maps, to.maps, () => true).map(({ key, how }) => `map ${how}: ${key}`),
  ];
}

interface Difference {
  readonly key: string;
  readonly how: 'added' | 'removed' | 'changed';
}

function differences<T>(from: ReadonlyMap<string, T>, to: ReadonlyMap<string, T>, same: (a: T, b: T) => boolean): Difference[] {
  const keys = [...new Set([...from.keys(), ...to.keys()])].sort(compareText);
  return keys.flatMap((key): Difference[] => {
    const [a, b] = [from.get(key), to.get(key)];
    if (a === undefined) return [{ key, how: 'added' }];
    if (b === undefined) return [{ key, how: 'removed' }];
    return same(a, b) ? [] : [{ key, how: 'changed' }];
  });
}

function sameBytes(a: string | Uint8Array, b: string | Uint8Array): boolean {
  return Buffer.compare(Buffer.from(a), Buffer.from(b)) === 0;
}

function sameBackend(a: BackendState, b: BackendState): boolean {
  return a.fixed === b.fixed && a.cookies === b.cookies;
}

function fileReason(path: string, how: Difference['how']): string {
  if (path.startsWith('router/config/')) return how === 'changed' ? 'base configuration changed' : `base configuration ${how}: ${path}`;
  if (path.startsWith('router/crt-list/')) return `list of certificates ${how}`;
  if (path.startsWith('router/certificates/')) return `certificate ${how}: ${path.slice('router/certificates/'.length)}`;
  return `file ${how}: ${path}`;
}
