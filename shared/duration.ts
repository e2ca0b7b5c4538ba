// Durations as HAProxy writes them: a number and a unit, milliseconds when there is none.

const UNITS: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The longest time that HAProxy takes: 2^31 - 1 ms. */
export const LONGEST_MS = 2_147_483_647;

/** Milliseconds, clipped to HAProxy's longest, rounded up from `us`; null when the text is not a duration. */
export function parseDuration(text: string): number | null {
  const match = /^(\d+)(us|ms|s|m|h|d)?$/.exec(text);
  const factor = UNITS[match?.[2] ?? 'ms'];
  if (match === null || factor === undefined) return null;
  return Math.min(Math.ceil(Number(match[1]) * factor), LONGEST_MS);
}
