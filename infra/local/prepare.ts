// Makes the state folder of a local run: its plan, options, token, sealing key and, when no cluster was named, a copy of the sample.

import { randomBytes } from 'node:crypto';
import { access, cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { errorMessage, HeadgateError } from '../../shared/error.ts';
import { type LocalPlan, LOOPBACK_PODS, localOptions, planFile, SAMPLE_PODS } from './plan.ts';

/** @throws HeadgateError `bad-state` (stage `keep`) */
export async function prepare(plan: LocalPlan, withSample: boolean): Promise<void> {
  try {
    await mkdir(join(plan.state, 'relay'), { recursive: true });
    await writeFile(planFile(plan), `${JSON.stringify(plan, null, 2)}\n`);
    await writeFile(join(plan.state, 'options.yaml'), localOptions(plan));
    await writeOnce(join(plan.state, 'token'), `${randomBytes(24).toString('base64url')}\n`);
    await writeOnce(join(plan.state, 'sealing-key'), `${randomBytes(32).toString('base64')}\n`);
    if (withSample) await copySample(plan);
  } catch (cause) {
    throw new HeadgateError('bad-state', 'keep', `cannot prepare the state folder ${plan.state}: ${errorMessage(cause)}`, { cause });
  }
}

async function writeOnce(file: string, text: string): Promise<void> {
  await access(file).catch(() => writeFile(file, text, { mode: 0o600 }));
}

/** The sample belongs to the user once it is copied: a later run leaves its edits alone. */
async function copySample(plan: LocalPlan): Promise<void> {
  const exists = await access(plan.cluster).then(
    () => true,
    () => false,
  );
  if (!exists) await cp(await sampleFolder(), plan.cluster, { recursive: true });
  const [from, to] = plan.namespace === null ? [SAMPLE_PODS, LOOPBACK_PODS] : [LOOPBACK_PODS, SAMPLE_PODS];
  for (const name of await readdir(plan.cluster)) {
    if (!name.endsWith('.yaml')) continue;
    const file = join(plan.cluster, name);
    const text = await readFile(file, 'utf8');
    if (text.includes(from)) await writeFile(file, text.replaceAll(from, to));
  }
}

/** infra/local/cluster, seen from the bundle as well as from this source. */
async function sampleFolder(): Promise<string> {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const above of ['..', '../..', '../../..']) {
    const folder = join(here, above, 'infra', 'local', 'cluster');
    if (
      await access(folder).then(
        () => true,
        () => false,
      )
    )
      return folder;
  }
  throw new HeadgateError('no-sample', 'usage', 'the sample cluster is not installed here; name a folder of manifests with --cluster DIR');
}
