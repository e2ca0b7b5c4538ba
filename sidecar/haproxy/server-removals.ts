// Servers that left the configuration and that HAProxy still holds, in maintenance, because their connections have not
// ended: tried again until they can be deleted.

import type { Logger } from '../../shared/logger.ts';
import type { Server } from '../../shared/router/state.ts';
import type { Lingering } from './plan.ts';
import type { ServerPath } from './runtime-command.ts';
import { RuntimeSocket } from './runtime-socket.ts';

interface Due {
  /** Null: found in the process after a start; not known what it was. */
  readonly server: Server | null;
  /** Milliseconds on the clock. */
  readonly since: number;
  tryAt: number;
  tries: number;
}

/** Deleting a server stops all threads of HAProxy for a moment, so one that is in use is not tried often. */
const FIRST_TRY_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

export interface ServerRemovalsOptions {
  readonly adminSocket: string;
  readonly logger: Logger;
  /** Milliseconds after which connections to a removed server are cut. */
  readonly graceMs: number;
  /** Milliseconds on a clock that only goes forward. */
  readonly now: () => number;
}

export class ServerRemovals {
  readonly #options: ServerRemovalsOptions;
  readonly #due = new Map<ServerPath, Due>();

  constructor(options: ServerRemovalsOptions) {
    this.#options = options;
  }

  get lingering(): Lingering {
    return new Map([...this.#due].map(([path, { server }]) => [path, server]));
  }

  add(servers: ReadonlyMap<ServerPath, Server | null>): void {
    const now = this.#options.now();
    for (const [path, server] of servers) this.#due.set(path, { server, since: now, tryAt: now + FIRST_TRY_MS, tries: 0 });
  }

  /** These serve again. */
  keep(paths: Iterable<ServerPath>): void {
    for (const path of paths) this.#due.delete(path);
  }

  /** The worker that held them serves no more. */
  clear(): void {
    this.#due.clear();
  }

  /** Tries those whose time has come. Not to be called while commands are planned or sent. */
  async attempt(): Promise<void> {
    const { adminSocket, logger, now } = this.#options;
    const ready = [...this.#due].filter(([, { tryAt }]) => tryAt <= now());
    if (ready.length === 0) return;
    const session = await RuntimeSocket.open(adminSocket, logger);
    try {
      await Promise.all(ready.map(([path, due]) => this.#delete(session, path, due)));
    } finally {
      session.close();
    }
  }

  async #delete(session: RuntimeSocket, path: ServerPath, due: Due): Promise<void> {
    const { logger, graceMs, now } = this.#options;
    const reply = await session.command(`del server ${path}`);
    if (reply === 'Server deleted.' || reply === 'No such server.') {
      this.#due.delete(path);
      logger.debug({ server: path }, 'server deleted');
      return;
    }
    due.tries += 1;
    due.tryAt = now() + Math.min(LONGEST_PAUSE_MS, FIRST_TRY_MS * 2 ** due.tries);
    if (now() - due.since < graceMs) return;
    logger.info({ server: path, reply }, 'cutting the last connections to a server that was removed');
    await session.command(`shutdown sessions server ${path}`);
  }
}
