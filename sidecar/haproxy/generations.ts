// Generations: one folder for each composed configuration that this node has been given, named by the digest of its files,
// and the link `current` to the one that HAProxy loads next. A folder is never changed after it has its name; only the file
// `checked` is added, once HAProxy has accepted it.

import { link, mkdir, open, readdir, readFile, readlink, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { type Digest, digestOf, isDigest } from '../../shared/digest.ts';
import { syncFolder } from '../../shared/durable-file.ts';
import { errnoCode, HeadgateError } from '../../shared/error.ts';
import type { Files } from '../../shared/files.ts';
import { contentDigest } from '../../shared/manifest.ts';
import { withoutDescription } from './local-config.ts';
import type { RouterPaths } from './paths.ts';

/** A generation as it is on disk. */
export interface Generation {
  readonly name: Digest;
  /** `router/...`, as composed. */
  readonly files: Files;
}

/** HAProxy's configuration of this node, beside the composed files. */
export const LOCAL_CONFIG = 'local.cfg';
const CHECKED = 'checked';
const PREFIX = 'router/';
const READ_TOGETHER = 64;

/** The name of the generation with these composed files, and with this local configuration (without a description). */
export function generationName(files: Files, localText: string): Digest {
  const entries = [...files, [LOCAL_CONFIG, localText] as const];
  return contentDigest(Object.fromEntries(entries.map(([path, content]) => [path, { digest: digestOf(content), size: sizeOf(content) }])));
}

export class Generations {
  readonly #paths: RouterPaths;

  constructor(paths: RouterPaths) {
    this.#paths = paths;
  }

  folder(name: Digest): string {
    return join(this.#paths.generations, name);
  }

  /** The generation that the next start or reload loads; null: none yet. */
  async current(): Promise<Digest | null> {
    const target = await readlink(this.#paths.current).catch(() => '');
    const name = basename(target);
    return isDigest(name) && (await this.#exists(name)) ? name : null;
  }

  /** Switches `current`, atomically and durably, and marks the generation as used now. */
  async switchTo(name: Digest): Promise<void> {
    const temporary = `${this.#paths.current}.${randomBytes(6).toString('hex')}.tmp`;
    await symlink(join(basename(this.#paths.generations), name), temporary);
    await rename(temporary, this.#paths.current);
    await syncFolder(dirname(this.#paths.current));
    const now = new Date();
    await utimes(this.folder(name), now, now);
  }

  /**
   * Writes a generation unless it is there. Everything is on disk before the folder gets its name; files that the given other generation
   * has too are linked, not copied.
   * @returns true when one was there whose files were damaged: it is replaced
   */
  async write(generation: Generation, localText: string, alike: Generation | null): Promise<boolean> {
    const exists = await this.#exists(generation.name);
    if (exists && (await this.#isWhole(generation.name))) return false;
    const temporary = join(this.#paths.generations, `.${generation.name}.${randomBytes(6).toString('hex')}`);
    const folders = new Set([temporary]);
    for (const path of generation.files.keys()) folders.add(join(temporary, dirname(path.slice(PREFIX.length))));
    try {
      for (const folder of folders) await mkdir(folder, { recursive: true, mode: 0o700 });
      for (const [path, content] of generation.files) await this.#writeFile(temporary, path, content, alike);
      await writeSynced(join(temporary, LOCAL_CONFIG), localText);
      for (const folder of folders) await syncFolder(folder);
      if (exists) await rename(this.folder(generation.name), `${temporary}.damaged`);
      await rename(temporary, this.folder(generation.name));
      await syncFolder(this.#paths.generations);
      return exists;
    } catch (thrown) {
      await rm(temporary, { recursive: true, force: true });
      throw thrown;
    }
  }

  /** @throws the system's error when a file cannot be read */
  async read(name: Digest): Promise<Generation> {
    const folder = this.folder(name);
    const items = await readdir(folder, { recursive: true, withFileTypes: true });
    const paths = items
      .filter((item) => item.isFile())
      .map((item) => join(item.parentPath ?? item.path, item.name).slice(folder.length + 1))
      .filter((path) => path !== LOCAL_CONFIG && path !== CHECKED);
    const files = new Map<string, Uint8Array>();
    for (let at = 0; at < paths.length; at += READ_TOGETHER) {
      const together = paths.slice(at, at + READ_TOGETHER);
      const contents = await Promise.all(together.map((path) => readFile(join(folder, path))));
      contents.forEach((content, index) => files.set(`${PREFIX}${together[index]}`, content));
    }
    return { name, files };
  }

  /**
   * Compares what was read of a generation with its name: a disk that went bad, or a hand, may have changed it.
   * @throws HeadgateError `generation-damaged` (stage `apply`); the system's error when local.cfg cannot be read
   */
  async verify({ name, files }: Generation): Promise<void> {
    const local = await readFile(join(this.folder(name), LOCAL_CONFIG), 'utf8');
    if (generationName(files, withoutDescription(local, name)) === name) return;
    throw new HeadgateError('generation-damaged', 'apply', `${this.folder(name)} does not hold the files that it is named by`);
  }

  /** True when this version of HAProxy has accepted the generation. */
  async isChecked(name: Digest, version: string): Promise<boolean> {
    return (await readFile(join(this.folder(name), CHECKED), 'utf8').catch(() => '')) === version;
  }

  async markChecked(name: Digest, version: string): Promise<void> {
    const { atime, mtime } = await stat(this.folder(name));
    await writeFile(join(this.folder(name), CHECKED), version, { mode: 0o600 });
    await utimes(this.folder(name), atime, mtime);
  }

  /** All generations, those used last first. */
  async byLastUse(): Promise<Digest[]> {
    const names = (await readdir(this.#paths.generations)).filter(isDigest);
    const used = await Promise.all(names.map(async (name) => ({ name, at: (await stat(this.folder(name))).mtimeMs })));
    return used.sort((a, b) => b.at - a.at).map(({ name }) => name);
  }

  /** Removes all but the newest `most`, the given ones in any case kept, and what a kill left half written. */
  async removeOld(most: number, kept: readonly (Digest | null)[]): Promise<void> {
    const old = (await this.byLastUse()).slice(most).filter((name) => !kept.includes(name));
    const halves = (await readdir(this.#paths.generations)).filter((name) => name.startsWith('.'));
    for (const name of [...old, ...halves]) await rm(join(this.#paths.generations, name), { recursive: true, force: true });
    const folder = dirname(this.#paths.current);
    const links = (await readdir(folder)).filter((name) => name.endsWith('.tmp'));
    for (const name of links) await rm(join(folder, name), { force: true });
  }

  #isWhole(name: Digest): Promise<boolean> {
    return this.read(name)
      .then((generation) => this.verify(generation))
      .then(
        () => true,
        () => false,
      );
  }

  async #exists(name: Digest): Promise<boolean> {
    return stat(this.folder(name)).then(
      (found) => found.isDirectory(),
      () => false,
    );
  }

  async #writeFile(temporary: string, path: string, content: string | Uint8Array, alike: Generation | null): Promise<void> {
    const place = path.slice(PREFIX.length);
    const same = alike?.files.get(path);
    if (alike !== null && same !== undefined && Buffer.compare(bytesOf(same), bytesOf(content)) === 0) {
      try {
        return await link(join(this.folder(alike.name), place), join(temporary, place));
      } catch (thrown) {
        if (errnoCode(thrown) === 'ENOSPC') throw thrown;
      }
    }
    await writeSynced(join(temporary, place), content);
  }
}

async function writeSynced(path: string, content: string | Uint8Array): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

function bytesOf(content: string | Uint8Array): Uint8Array {
  return typeof content === 'string' ? Buffer.from(content) : content;
}

function sizeOf(content: string | Uint8Array): number {
  return typeof content === 'string' ? Buffer.byteLength(content) : content.length;
}
