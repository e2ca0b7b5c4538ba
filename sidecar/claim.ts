// One sidecar per role and network namespace: two of them would undo each other's work. The claim is an abstract Unix
// socket, which belongs to the network namespace and which the kernel frees with the process, however it ends.

import { createServer } from 'node:net';
import { errnoCode, HeadgateError } from '../shared/error.ts';
import type { Role } from '../shared/role.ts';

export interface RoleClaim {
  release(): Promise<void>;
}

/**
 * Claims a role in this process's network namespace until `release` or the end of the process. Where there are no abstract sockets (not
 * Linux) nothing is claimed.
 * @throws HeadgateError `role-in-use` (stage `serve`) when another process holds it
 */
export async function claimRole(role: Role): Promise<RoleClaim> {
  if (process.platform !== 'linux') return { release: async () => undefined };
  const server = createServer((connection) => connection.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => reject(claimError(role, cause)));
    server.listen(`\0headgate-${role}`, resolve);
  });
  server.unref();
  return { release: () => new Promise((resolve) => server.close(() => resolve())) };
}

function claimError(role: Role, cause: Error): HeadgateError {
  const message =
    errnoCode(cause) === 'EADDRINUSE'
      ? `another sidecar serves the role ${role} in this network namespace; stop it, or leave the role out of --roles`
      : `the role ${role} cannot be claimed in this network namespace`;
  return new HeadgateError('role-in-use', 'serve', message, { cause });
}
