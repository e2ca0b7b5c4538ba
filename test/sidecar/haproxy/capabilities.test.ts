import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { test } from 'node:test';
import { capabilitiesOf, findHaproxy } from '../../../sidecar/haproxy/capabilities.ts';
import { withoutHaproxy } from '../../fixtures/haproxy-node.ts';

test('found by its name, with an absolute path', { skip: withoutHaproxy() }, async () => {
  const found = await findHaproxy('haproxy');
  assert.ok(isAbsolute(found.path));
  assert.match(found.version, /^\d+\.\d+/);
});

test('what is not there, no HAProxy or too old says what to do', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), `hg-program-${process.pid}-`));
  t.after(() => rm(folder, { recursive: true }));
  const program = join(folder, 'program');
  await assert.rejects(findHaproxy(program), { code: 'haproxy-missing', message: /install it .* --haproxy PATH/ });
  await writeFile(program, '#!/bin/sh\necho hello\n');
  await assert.rejects(findHaproxy(program), { code: 'haproxy-missing' }, 'not executable');
  await chmod(program, 0o755);
  await assert.rejects(findHaproxy(program), { code: 'haproxy-unusable', message: /--haproxy PATH/ });
  await writeFile(program, '#!/bin/sh\necho HA-Proxy version 1.8.30 2021\n');
  await assert.rejects(findHaproxy(program), { code: 'haproxy-unusable', message: /1\.8\.30; 2\.4 or newer/ });
});

test('versions compare as numbers', () => {
  assert.deepEqual(
    ['2.4.22', '2.5.0', '2.6-dev1', '2.10.1', '3.0.0'].map((version) => capabilitiesOf(version).addServer),
    [false, false, true, true, true],
  );
});
