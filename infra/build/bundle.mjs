// Bundles the command line into dist/: one entry (headgate.mjs) whose commands are chunks that load when they are used, and the sidecar
// alone as one file (sidecar.mjs), for images that carry nothing else. `node infra/build/bundle.mjs` builds; the launcher calls
// `bundle()` when a source is newer than what was built.

import { copyFile, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

// Some packages are CommonJS and ask for Node's modules by `require`, which an ES module has not.
const banner = {
  js: "import { createRequire as createRequireForBundle } from 'node:module'; const require = createRequireForBundle(import.meta.url);",
};

const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  banner,
  loader: { '.hbs': 'text' },
  outExtension: { '.js': '.mjs' },
  sourcemap: true,
  legalComments: 'none',
  logLevel: 'error',
};

const KEEP_CHUNKS_MS = 3_600_000;

/** Builds beside dist/ and moves each file into place, entries last, so that a command that starts or runs meanwhile finds what it needs. */
export async function bundle() {
  const dist = join(root, 'dist');
  const fresh = await mkdtemp(join(root, '.dist-'));
  try {
    await build({
      ...common,
      entryPoints: { headgate: 'infra/cli/main.ts' },
      splitting: true,
      chunkNames: 'chunks/[name]-[hash]',
      outdir: fresh,
    });
    await build({ ...common, entryPoints: { sidecar: 'infra/cli/sidecar-main.ts' }, minify: true, outdir: fresh });
    await copyFile(join(root, 'sidecar', 'haproxy', 'reload-haproxy'), join(fresh, 'reload-haproxy'));
    for (const folder of ['chunks', '.']) await moveFiles(join(fresh, folder), join(dist, folder));
    await removeOldChunks(join(dist, 'chunks'));
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  return dist;
}

async function moveFiles(from, to) {
  await mkdir(to, { recursive: true });
  for (const item of await readdir(from, { withFileTypes: true })) {
    if (item.isFile()) await rename(join(from, item.name), join(to, item.name));
  }
}

async function removeOldChunks(folder) {
  for (const name of await readdir(folder)) {
    const { mtimeMs } = await stat(join(folder, name)).catch(() => ({ mtimeMs: Date.now() }));
    if (mtimeMs < Date.now() - KEEP_CHUNKS_MS) await rm(join(folder, name), { force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const dist = await bundle();
  process.stdout.write(`${(await readdir(dist)).filter((name) => name.endsWith('.mjs')).join(' ')} in ${dist}\n`);
}
