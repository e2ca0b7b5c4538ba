// The dependency rules: who may import whom, and which folders are pure. The imports are read by the bundler, not guessed from text.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { build } from 'esbuild';

const FOLDERS = ['functions', 'sidecar', 'shared', 'infra'];
const PURE = ['functions/router/', 'functions/iptables/', 'shared/router/', 'shared/iptables/'];
/** What a pure file may use of Node: computing on what it is given. */
const PURE_MODULES = new Set(['node:crypto', 'node:net', 'node:buffer', 'node:zlib']);

const IMPURE = /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\brandomBytes\b|\brandomUUID\b|\bprocess\.|\bsetTimeout\b|\bfetch\(/;

function withoutComments(text: string): string {
  return text.replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '');
}

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((item) => {
    const path = join(folder, item.name);
    if (item.isDirectory()) return sources(path);
    return item.name.endsWith('.ts') && !item.name.endsWith('.d.ts') ? [path] : [];
  });
}

const files = FOLDERS.flatMap(sources);
const { metafile } = await build({
  entryPoints: files,
  bundle: true,
  write: false,
  metafile: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  loader: { '.hbs': 'text' },
  outdir: 'unused',
  logLevel: 'error',
});

/** Imports of a file, those of types too: the bundler drops these, so they are read from the source. */
function importsOf(file: string): string[] {
  const values = (metafile.inputs[file]?.imports ?? []).map(({ path }) => path);
  const types = [...readFileSync(file, 'utf8').matchAll(/^(?:import|export) type .* from '(\.[^']+)';$/gms)].map(([, path]) =>
    join(file, '..', path ?? ''),
  );
  return [...values, ...types];
}

function offences(from: string, isForbidden: (path: string) => boolean): string[] {
  return files
    .filter((file) => file.startsWith(from))
    .flatMap((file) =>
      importsOf(file)
        .filter(isForbidden)
        .map((path) => `${file} imports ${path}`),
    );
}

test('every source is seen', () => {
  assert.ok(files.length > 50);
  for (const file of files) assert.ok(metafile.inputs[file] !== undefined, file);
});

test('shared imports neither functions nor sidecar nor infra', () => {
  assert.deepEqual(
    offences('shared/', (path) => /^(functions|sidecar|infra)\//.test(path)),
    [],
  );
});

test('functions and sidecar do not know each other, nor infra', () => {
  assert.deepEqual(
    offences('functions/', (path) => /^(sidecar|infra)\//.test(path)),
    [],
  );
  assert.deepEqual(
    offences('sidecar/', (path) => /^(functions|infra)\//.test(path)),
    [],
  );
});

test('the sidecar has no templates and no Kubernetes client', () => {
  assert.deepEqual(
    offences('sidecar/', (path) => /handlebars|@kubernetes|\.hbs$/.test(path)),
    [],
  );
});

test('computing does no I/O and asks no clock, chance or environment', () => {
  for (const folder of PURE) {
    assert.deepEqual(
      offences(folder, (path) => path.startsWith('node:') && !PURE_MODULES.has(path)),
      [],
    );
    const impure = files.filter((file) => file.startsWith(folder) && IMPURE.test(withoutComments(readFileSync(file, 'utf8'))));
    assert.deepEqual(impure, []);
  }
});

test('nothing has a name that says nothing', () => {
  const names = files.filter((file) => /(^|\/)(utils?|helpers?|manager|common|misc)(\.|\/)/.test(file));
  assert.deepEqual(names, []);
});
