// A store and the manifests that are reconciled with it, for tests of commands that operate on a store.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { z } from 'zod';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { headgate, type RunOptions } from './launcher.ts';
import { type Shop, writeShop } from './shop.ts';

/** A store, and the folder that it is reconciled with. */
export class Site {
  readonly folder: string;
  readonly store: string;
  readonly cluster: string;

  constructor(t: TestContext) {
    this.folder = temporaryFolder(t);
    this.store = pathToFileURL(join(this.folder, 'store')).href;
    this.cluster = join(this.folder, 'cluster');
    mkdirSync(this.cluster);
  }

  /** Runs a command on the store, which must succeed; its standard output. */
  async run(argv: readonly string[], options?: RunOptions): Promise<string> {
    const { code, stdout, stderr } = await headgate([...argv, '--store', this.store], options);
    assert.equal(code, 0, stderr);
    return stdout;
  }

  async json<T>(schema: z.ZodType<T>, ...argv: readonly string[]): Promise<T> {
    return schema.parse(JSON.parse(await this.run([...argv, '--json'])));
  }

  async reconcile(shop?: Shop): Promise<string> {
    return this.run(['reconcile', '--cluster', writeShop(this.cluster, shop)]);
  }
}
