// Sends a plan's commands to the worker that they were planned for, and takes nothing but the expected replies for success.

import { HeadgateError } from '../../shared/error.ts';
import type { Logger } from '../../shared/logger.ts';
import { parseInfo } from './readback.ts';
import type { RuntimeCommand } from './runtime-command.ts';
import { ask, RuntimeSocket } from './runtime-socket.ts';

/**
 * Sends step after step.
 * @param pid the worker's; a session that reaches another one, or a worker that is replaced meanwhile, is an error
 * @throws HeadgateError `unexpected-reply`, `worker-changed` (stage `apply`), or as the socket does: the worker then runs something between
 */
export async function sendCommands(
  adminSocket: string,
  pid: number,
  steps: readonly (readonly RuntimeCommand[])[],
  logger: Logger,
): Promise<void> {
  const session = await RuntimeSocket.open(adminSocket, logger);
  try {
    expectWorker(pid, await session.command('show info'));
    for (const step of steps) {
      await Promise.all(step.map(async (command) => expectReply(command, await session.command(command.text))));
    }
    // A session stays with its worker when another one takes over.
    expectWorker(pid, await ask(adminSocket, 'show info'));
  } finally {
    session.close();
  }
}

function expectReply({ text, expect }: RuntimeCommand, reply: string): void {
  if (expect.test(reply)) return;
  const [command = ''] = text.split('\n');
  const answer = reply === '' ? 'nothing' : JSON.stringify(reply.slice(0, 200));
  throw new HeadgateError('unexpected-reply', 'apply', `HAProxy answered ${answer} to ${JSON.stringify(command.slice(0, 200))}`);
}

function expectWorker(pid: number, info: string): void {
  const found = parseInfo(info)?.pid ?? 'another process';
  if (found !== pid) throw new HeadgateError('worker-changed', 'apply', `HAProxy's worker changed from ${pid} to ${found} meanwhile`);
}
