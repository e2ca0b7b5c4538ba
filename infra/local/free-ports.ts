// Ports on loopback that a local run is about to take: looked at first, so that nothing starts when one of them is another program's.

import { createServer } from 'node:net';
import { errnoCode, errorMessage, HeadgateError } from '../../shared/error.ts';

/** @throws HeadgateError `port-in-use` or `cannot-listen` (stage `serve`) for the first port that cannot be had */
export async function checkFreePorts(ports: readonly number[]): Promise<void> {
  for (const port of ports) {
    await tryPort(port).catch((cause: unknown) => {
      const taken = errnoCode(cause) === 'EADDRINUSE';
      const why = taken ? 'is taken by another program' : `cannot be used (${errorMessage(cause)})`;
      const message = `127.0.0.1:${port} ${why}; choose other ports with --port-base N`;
      throw new HeadgateError(taken ? 'port-in-use' : 'cannot-listen', 'serve', message, { cause });
    });
  }
}

async function tryPort(port: number): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => server.close(() => resolve()));
  });
}
