// How long to wait before trying again: doubling from the least to the most, with jitter so that many nodes do not return at once.

export interface BackoffRange {
  readonly leastMs: number;
  readonly mostMs: number;
}

/**
 * Milliseconds to wait before a try.
 * @param failures how many tries failed in a row, 1 or more
 * @param random in [0, 1): the result lies between half and the whole of the doubled time, never under `leastMs`
 */
export function backoffMs(failures: number, range: BackoffRange, random: number): number {
  const whole = Math.min(range.mostMs, range.leastMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(range.leastMs, Math.round(whole * (0.5 + random / 2)));
}
