// How large the bundles are: what a node downloads, and what a command loads.

import { execFile } from 'node:child_process';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { kibibytes, ROOT, type Row } from './subject.ts';

export async function measureSizes(progress: (what: string) => void): Promise<Row[]> {
  progress('bundling');
  await promisify(execFile)(process.execPath, ['infra/build/bundle.mjs'], { cwd: ROOT });
  const dist = join(ROOT, 'dist');
  const sidecar = await readFile(join(dist, 'sidecar.mjs'));
  const program = await readFile(join(dist, 'headgate.mjs'));
  return [
    kibibytes('dist/sidecar.mjs', sidecar.length),
    kibibytes('dist/sidecar.mjs, gzip', (await promisify(gzip)(sidecar)).length),
    kibibytes('dist/headgate.mjs and all its chunks', program.length + (await chunksOf(dist, program.toString('utf8')))),
  ];
}

/** Bytes of the chunks that belong to the program: those of earlier builds lie beside them. */
async function chunksOf(dist: string, program: string): Promise<number> {
  const names = await readdir(join(dist, 'chunks'));
  const found = new Set<string>();
  const waiting = [program];
  for (let text = waiting.pop(); text !== undefined; text = waiting.pop()) {
    for (const name of names) {
      if (!name.endsWith('.mjs') || found.has(name) || !text.includes(name)) continue;
      found.add(name);
      waiting.push(await readFile(join(dist, 'chunks', name), 'utf8'));
    }
  }
  const sizes = await Promise.all([...found].map(async (name) => (await stat(join(dist, 'chunks', name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
