// A process of the race tests: raises a counter by compare-and-swap, so many times, and says so. Arguments: folder, key, times.

import { openDirectoryStore } from '../../../shared/object-store/directory.ts';

const [folder = '', key = '', times = '0'] = process.argv.slice(2);
const store = await openDirectoryStore(folder, { keep: { count: 16, ageMs: 3_000 } });
process.stdout.write('started\n');
for (let done = 0; done < Number(times); ) {
  const seen = await store.get(key);
  const next = seen === null ? 1 : Number(Buffer.from(seen.bytes).toString('utf8')) + 1;
  const result = await store.put(key, Buffer.from(String(next)), seen === null ? 'absent' : { etag: seen.etag });
  if (result.outcome === 'conflict') continue;
  done += 1;
  process.stdout.write(`${next}\n`);
}
