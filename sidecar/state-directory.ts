// The sidecar's state folder, held by one process at a time. The lock is a listening Unix socket in the folder: unlike a
// process id it means the same in every PID namespace, and the kernel stops listening however the process ends, so a
// left-over file is told from a living holder by connecting to it.
//
// A holder of `lock-<n>.sock` that no longer answers is followed by whoever creates `lock-<n+1>.sock` with link(2): of two
// that follow at once one wins, and the other finds it answering. The highest number is never removed.

import { randomBytes } from 'node:crypto';
import { chmod, link, readdir, rm, stat } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join, resolve } from 'node:path';
import { errnoCode, HeadgateError } from '../shared/error.ts';
import { makeFolder } from '../shared/make-folder.ts';

export interface StateDirectory {
  /** Absolute. */
  readonly path: string;
  release(): Promise<void>;
}

/** HAProxy's workers, which are not root, pass through to their sockets. What lies in the folder has tighter modes of its own. */
const MODE = 0o711;
const PASS = 0o011;
const LOCK = /^lock-(\d+)\.sock$/;
/** A Unix socket's path holds 107 bytes. */
const LONGEST_PATH = 90;

/**
 * Makes the folder when it is absent (0711), lets HAProxy's workers pass through it, and holds it until `release` or the end of the process.
 * @throws HeadgateError `state-in-use` when another process holds it, `bad-state-directory` when it cannot be made or used (stage `serve`)
 */
export async function openStateDirectory(path: string): Promise<StateDirectory> {
  const folder = resolve(path);
  if (Buffer.byteLength(folder) > LONGEST_PATH) {
    throw new HeadgateError(
      'bad-state-directory',
      'serve',
      `${folder} is too long a path for the sockets below it (at most ${LONGEST_PATH} bytes); choose a shorter --state`,
    );
  }
  try {
    await makeFolder(folder, MODE);
    await letPass(folder);
    const server = await takeLock(folder);
    return { path: folder, release: () => new Promise((done) => server.close(() => done())) };
  } catch (cause) {
    if (cause instanceof HeadgateError) throw cause;
    throw new HeadgateError(
      'bad-state-directory',
      'serve',
      `${folder} cannot be used as the state folder; give a folder that can be written with --state`,
      {
        cause,
      },
    );
  }
}

/** The umask, or whoever made the folder, may have left it shut. What else it allows stays: it may be used for more than this. */
async function letPass(folder: string): Promise<void> {
  // With the slash a file in its place is an error.
  const { mode } = await stat(`${folder}/`);
  if ((mode & PASS) !== PASS) await chmod(folder, (mode & 0o7777) | PASS);
}

async function takeLock(folder: string): Promise<Server> {
  const socket = join(folder, `.lock-${randomBytes(4).toString('hex')}`);
  const server = await listen(socket);
  try {
    await linkNext(folder, socket);
    return server;
  } catch (thrown) {
    server.close();
    throw thrown;
  } finally {
    await rm(socket, { force: true });
  }
}

async function linkNext(folder: string, socket: string): Promise<void> {
  for (;;) {
    const numbers = await lockNumbers(folder);
    const highest = Math.max(0, ...numbers);
    if (highest > 0 && (await answers(join(folder, `lock-${highest}.sock`)))) {
      throw new HeadgateError(
        'state-in-use',
        'serve',
        `${folder} is in use by another sidecar or \`headgate up\`; stop it, or choose another folder with --state`,
      );
    }
    try {
      await link(socket, join(folder, `lock-${highest + 1}.sock`));
    } catch (thrown) {
      if (errnoCode(thrown) === 'EEXIST') continue;
      throw thrown;
    }
    await Promise.all(numbers.map((number) => rm(join(folder, `lock-${number}.sock`), { force: true })));
    return;
  }
}

async function lockNumbers(folder: string): Promise<number[]> {
  return (await readdir(folder)).flatMap((name) => {
    const number = LOCK.exec(name)?.[1];
    return number === undefined ? [] : [Number(number)];
  });
}

function listen(path: string): Promise<Server> {
  const server = createServer((connection) => connection.destroy());
  server.unref();
  return new Promise((done, reject) => {
    server.once('error', reject);
    server.listen(path, () => done(server));
  });
}

function answers(path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      done(true);
    });
    socket.once('error', () => done(false));
  });
}
