// Where --cluster says the cluster is.

import { stat } from 'node:fs/promises';
import { HeadgateError } from '../../shared/error.ts';

/**
 * The path of manifests that are read once: a file, a folder, `-`.
 * @throws HeadgateError `no-kubernetes` or `bad-cluster` (stage `usage`)
 */
export function manifestPath(cluster: string): string {
  if (cluster === '') throw new HeadgateError('bad-cluster', 'usage', '--cluster is empty; name a manifest, a folder of manifests, or -');
  if (cluster !== 'kubernetes') return cluster;
  throw new HeadgateError(
    'no-kubernetes',
    'usage',
    'reading an API server is not built yet; give a folder of manifests with --cluster DIR',
  );
}

/**
 * The path of manifests that are read again and again.
 * @throws HeadgateError `bad-cluster`, also for a path that is not there: what is watched must exist from the start
 */
export async function watchablePath(cluster: string): Promise<string> {
  const path = manifestPath(cluster);
  if (path === '-') {
    throw new HeadgateError('bad-cluster', 'usage', 'the cluster is read again and again here; give a folder with --cluster DIR');
  }
  await stat(path).catch((cause: unknown) => {
    throw new HeadgateError('bad-cluster', 'read-cluster', `there is no folder ${path}; give a folder of manifests with --cluster DIR`, {
      cause,
    });
  });
  return path;
}
