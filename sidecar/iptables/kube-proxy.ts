// Whether a kube-proxy runs on this node. It and the service proxy write chains of the same names, and would undo each other's work.

import { get } from 'node:http';
import { HeadgateError } from '../../shared/error.ts';

/** Where kube-proxy serves its metrics and its health. */
const PLACES = [
  { host: '127.0.0.1', port: 10_249 },
  { host: '127.0.0.1', port: 10_256 },
] as const;
/** Milliseconds for an answer. */
const PATIENCE_MS = 1_000;

/** The `address:port` of kube-proxy's that answers HTTP in this process's network namespace, whatever it answers; null when none does. */
export async function findKubeProxy(): Promise<string | null> {
  const answers = await Promise.all(PLACES.map(answersHttp));
  const place = PLACES.find((_, index) => answers[index]);
  return place === undefined ? null : `${place.host}:${place.port}`;
}

/** @throws HeadgateError `kube-proxy-running` (stage `check`) when one answers */
export async function refuseKubeProxy(): Promise<void> {
  const place = await findKubeProxy();
  if (place === null) return;
  const message = `kube-proxy runs on this node (${place} answers); stop it, or take its rules over with --take-over`;
  throw new HeadgateError('kube-proxy-running', 'check', message);
}

function answersHttp({ host, port }: (typeof PLACES)[number]): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get({ host, port, path: '/healthz', agent: false, timeout: PATIENCE_MS }, (response) => {
      response.destroy();
      resolve(true);
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(false));
  });
}
