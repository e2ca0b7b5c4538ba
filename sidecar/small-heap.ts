// Keeps the sidecar's memory near what it holds: it shares its node with everybody's pods, and computes seldom.

import { setFlagsFromString } from 'node:v8';

/**
 * By default V8 lets its young generation grow to 48 MiB, and the old one to several times what lives in it, before it collects: after a large
 * cluster was applied that would stay for minutes. V8 reads both settings whenever it decides on that.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=10');
}
