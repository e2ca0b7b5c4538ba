// Runs the tests with Node's own runner: `node test/run.mjs [--unit] [--long] [FILE ...]`. --unit leaves out test/end-to-end; --long gives the
// property tests their full number of cases (HEADGATE_TEST_LONG=1) and adds the files *.long.test.ts.

import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const flags = new Set(process.argv.slice(2).filter((word) => word.startsWith('--')));
const named = process.argv.slice(2).filter((word) => !word.startsWith('--'));

function testFiles(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((item) => {
    const path = join(folder, item.name);
    if (item.isDirectory()) return testFiles(path);
    return item.name.endsWith('.test.ts') ? [relative(root, path)] : [];
  });
}

const all = testFiles(join(root, 'test'))
  .filter((file) => flags.has('--long') || !file.endsWith('.long.test.ts'))
  .filter((file) => !flags.has('--unit') || !file.startsWith('test/end-to-end/'))
  .sort();
const files = named.length > 0 ? named : all;
const loaders = ['--import', 'tsx', '--import', './infra/build/text-import.mjs'];
// Two cores and real HAProxy processes: more at once only makes every one slow.
const runner = ['--test', '--test-concurrency=2', '--test-reporter=spec'];

const child = spawn(process.execPath, [...loaders, ...runner, ...files], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin`, ...(flags.has('--long') ? { HEADGATE_TEST_LONG: '1' } : {}) },
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
child.on('close', (code) => {
  process.exitCode = code ?? 1;
});
