#!/usr/bin/env node
// The launcher: runs the bundle. In a checkout it builds the bundle first when a source is newer, so that what runs is what is written.

import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const entry = join(root, 'dist', 'headgate.mjs');

function newestSource(folder) {
  let newest = 0;
  for (const item of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, item.name);
    if (item.isDirectory()) newest = Math.max(newest, newestSource(path));
    else if (/\.(ts|hbs|mjs)$|^reload-haproxy$/.test(item.name)) newest = Math.max(newest, statSync(path).mtimeMs);
  }
  return newest;
}

function isStale() {
  if (!existsSync(entry)) return true;
  const built = statSync(entry).mtimeMs;
  return ['functions', 'sidecar', 'shared', 'infra'].some((folder) => newestSource(join(root, folder)) > built);
}

const isCheckout = existsSync(join(root, 'infra', 'cli', 'main.ts'));
if (isCheckout && isStale()) {
  if (!existsSync(join(root, 'node_modules', 'esbuild'))) {
    process.stderr.write('headgate: not set up yet; run: sh infra/setup.sh\n');
    process.exit(1);
  }
  const { bundle } = await import('../build/bundle.mjs');
  await bundle().catch((error) => {
    process.stderr.write(`headgate: the sources cannot be bundled: ${String(error.message).replace(/\s*\n\s*/g, ' ')}\n`);
    process.exit(1);
  });
}
const { main } = await import(pathToFileURL(entry).href);
await main(process.argv);
