import assert from 'node:assert/strict';
import test from 'node:test';
import { claimRole } from '../../sidecar/claim.ts';
import { runProgram } from '../../sidecar/run-program.ts';

// A network namespace of its own for the whole scenario, so that a sidecar on this machine does not matter.
const isolated = process.platform === 'linux' && process.getuid?.() === 0 ? false : 'needs Linux and root for a network namespace';
const claimModule = new URL('../../sidecar/claim.ts', import.meta.url).href;

async function inNewNamespace(script: string): Promise<string> {
  const source = `import { claimRole } from ${JSON.stringify(claimModule)};\n${script}`;
  const argv = ['unshare', '--net', process.execPath, '--import', 'tsx', '--input-type=module', '-e', source];
  const { code, stdout, stderr } = await runProgram(argv);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

test('a role is claimed once, each role for itself, and again after its release', { skip: isolated }, async () => {
  const printed = await inNewNamespace(`
    const claim = await claimRole('service-proxy');
    const other = await claimRole('router');
    console.log(await claimRole('service-proxy').then(() => 'twice', (error) => error.code));
    await claim.release();
    await claimRole('service-proxy');
    console.log('again');
  `);
  assert.deepEqual(printed.split('\n'), ['role-in-use', 'again']);
});

test('another network namespace has roles of its own', { skip: isolated }, async () => {
  const claim = await claimRole('service-proxy').catch(() => null);
  try {
    assert.equal(await inNewNamespace(`await claimRole('service-proxy'); console.log('claimed');`), 'claimed');
  } finally {
    await claim?.release();
  }
});
