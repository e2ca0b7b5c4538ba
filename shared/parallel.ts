// Bounded concurrency.

/**
 * Runs `run` over the items, at most `limit` at once, and gives the results in the items' order. The first failure is thrown as soon as the
 * calls under way have ended; no further ones are started.
 */
export async function mapParallel<T, R>(items: readonly T[], limit: number, run: (item: T) => Promise<R>): Promise<R[]> {
  const results = new Map<number, R>();
  const entries = items.entries();
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    for (const [index, item] of entries) {
      try {
        results.set(index, await run(item));
      } catch (thrown) {
        failures.push(thrown);
      }
      if (failures.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
  return [...results].sort(([a], [b]) => a - b).map(([, result]) => result);
}
