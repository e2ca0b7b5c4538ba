import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, describe, test } from 'node:test';
import { listManifestFiles } from '../../../functions/cluster/manifest-files.ts';
import { watchDirectory } from '../../../functions/cluster/watch-directory.ts';
import { HeadgateError } from '../../../shared/error.ts';
import { until } from '../../fixtures/poll.ts';
import { temporaryFolder, writeFiles } from '../../fixtures/temporary-folder.ts';

/** What a reader would find now. */
function contentOf(path: string): string {
  try {
    return listManifestFiles(path)
      .files.map((file) => `${file.path}: ${readFileSync(file.path, 'utf8')}`)
      .join('\n');
  } catch (error) {
    return error instanceof HeadgateError ? error.code : String(error);
  }
}

/** A watch that counts its reports, and reads at each; a step has been reported once a reading shows what it left. */
function watching(context: TestContext, path: string) {
  let reports = 0;
  let read = contentOf(path);
  const watch = watchDirectory(path, () => {
    reports++;
    read = contentOf(path);
  });
  context.after(() => watch.close());
  const reportsAfter = async (what: string, step: () => void): Promise<void> => {
    step();
    const left = contentOf(path);
    assert.notEqual(left, read, `a step that changes nothing: ${what}`);
    await until(`a report of: ${what}`, () => read === left);
  };
  return { watch, reports: () => reports, reportsAfter };
}

describe('what is reported', () => {
  test('a file that comes, changes, moves and goes', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { 'old.yaml': 'a' });
    const { reportsAfter } = watching(context, folder);
    await reportsAfter('a new file', () => writeFiles(folder, { 'a.yaml': '1' }));
    await reportsAfter('other content', () => writeFiles(folder, { 'a.yaml': '22' }));
    await reportsAfter('other content of the same size', () => writeFiles(folder, { 'a.yaml': '33' }));
    await reportsAfter('another name', () => renameSync(join(folder, 'a.yaml'), join(folder, 'b.json')));
    await reportsAfter('a file removed', () => unlinkSync(join(folder, 'old.yaml')));
  });

  test('a file that an editor replaces', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { 'a.yaml': 'a' });
    const { reportsAfter } = watching(context, folder);
    for (const content of ['b', 'c']) {
      await reportsAfter(`a file renamed over it, ${content}`, () => {
        writeFiles(folder, { '.a.yaml.swp': content });
        renameSync(join(folder, 'a.yaml'), join(folder, 'a.yaml~'));
        renameSync(join(folder, '.a.yaml.swp'), join(folder, 'a.yaml'));
      });
    }
  });

  test('folders that come, are filled later, and are replaced', async (context) => {
    const folder = temporaryFolder(context);
    const { reportsAfter } = watching(context, folder);
    await reportsAfter('a new folder with a file', () => writeFiles(folder, { 'x/y/a.yaml': '1' }));
    await reportsAfter('a file within it', () => writeFiles(folder, { 'x/y/a.yaml': '22' }));
    await reportsAfter('another folder under its name', () => {
      writeFiles(folder, { '.new/a.yaml': '333' });
      renameSync(join(folder, 'x/y'), join(folder, '.old'));
      renameSync(join(folder, '.new'), join(folder, 'x/y'));
    });
    await reportsAfter('a file within that one', () => writeFiles(folder, { 'x/y/b.yaml': '4' }));
    await reportsAfter('a folder removed', () => rmSync(join(folder, 'x'), { recursive: true }));
  });

  test('a mounted ConfigMap whose link is swapped', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { '..1/a.yaml': 'one' });
    symlinkSync('..1', join(folder, '..data'));
    symlinkSync('..data/a.yaml', join(folder, 'a.yaml'));
    const { reportsAfter } = watching(context, folder);
    for (const next of ['..2', '..3']) {
      await reportsAfter(`the link to ${next}`, () => {
        writeFiles(folder, { [`${next}/a.yaml`]: next });
        symlinkSync(next, join(folder, '..data_tmp'));
        renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
      });
    }
  });

  test('a file outside that a link leads to, of which the kernel does not tell', async (context) => {
    const folder = temporaryFolder(context);
    const elsewhere = temporaryFolder(context);
    writeFiles(elsewhere, { 'a.yaml': '1' });
    symlinkSync(join(elsewhere, 'a.yaml'), join(folder, 'a.yaml'));
    const { reportsAfter } = watching(context, folder);
    await reportsAfter('other content elsewhere', () => writeFiles(elsewhere, { 'a.yaml': '22' }));
  });

  test('one file, replaced and written in place', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { 'manifests.txt': '1' });
    const { reportsAfter } = watching(context, join(folder, 'manifests.txt'));
    await reportsAfter('another file', () => {
      writeFiles(folder, { new: '2' });
      renameSync(join(folder, 'new'), join(folder, 'manifests.txt'));
    });
    await reportsAfter('other content', () => writeFileSync(join(folder, 'manifests.txt'), '333'));
  });

  test('the folder itself goes, and comes back', async (context) => {
    const folder = join(temporaryFolder(context), 'cluster');
    writeFiles(folder, { 'a.yaml': '1' });
    const { reportsAfter } = watching(context, folder);
    await reportsAfter('no folder', () => rmSync(folder, { recursive: true }));
    await reportsAfter('a folder again', () => mkdirSync(folder));
    await reportsAfter('a file in it', () => writeFiles(folder, { 'a.yaml': '1' }));
  });

  test('many writes at once are one change', async (context) => {
    const folder = temporaryFolder(context);
    const { reports, reportsAfter } = watching(context, folder);
    await reportsAfter('fifty files', () => {
      for (let index = 0; index < 50; index++) writeFiles(folder, { [`${index}.yaml`]: 'x' });
    });
    assert.equal(reports(), 1);
  });

  test('a change while writes never pause', async (context) => {
    const folder = temporaryFolder(context);
    const { reports } = watching(context, folder);
    let writes = 0;
    const writing = setInterval(() => writeFiles(folder, { 'a.yaml': String(writes++) }), 20);
    context.after(() => clearInterval(writing));
    await until('a report in the midst', () => reports() > 0);
  });
});

describe('what is not', () => {
  test('hidden files, and files that are no manifests', async (context) => {
    const folder = temporaryFolder(context);
    const quiet = watching(context, folder);
    // The second watch stands for time: it begins later, and has seen a later change by its slow look.
    writeFiles(folder, { '.a.yaml.swp': 'x', 'readme.md': 'x', 'a.yaml~': 'x', '.git/b.yaml': 'x' });
    const elsewhere = temporaryFolder(context);
    const outside = temporaryFolder(context);
    writeFiles(outside, { 'a.yaml': '1' });
    symlinkSync(join(outside, 'a.yaml'), join(elsewhere, 'a.yaml'));
    await watching(context, elsewhere).reportsAfter('a slow look', () => writeFiles(outside, { 'a.yaml': '22' }));
    assert.equal(quiet.reports(), 0);
  });

  test('anything after it was closed', async (context) => {
    const folder = temporaryFolder(context);
    const closed = watching(context, folder);
    const open = watching(context, folder);
    writeFiles(folder, { 'a.yaml': '1' });
    closed.watch.close();
    await until('a report to the other', () => open.reports() > 0);
    await open.reportsAfter('another', () => writeFiles(folder, { 'a.yaml': '22' }));
    assert.equal(closed.reports(), 0);
    closed.watch.close();
  });
});

test('what cannot be watched is an error at once', (context) => {
  assert.throws(
    () => watchDirectory(join(temporaryFolder(context), 'nowhere'), () => {}),
    (error) => error instanceof HeadgateError && error.code === 'missing-manifests',
  );
  assert.throws(
    () => watchDirectory('-', () => {}),
    (error) => error instanceof HeadgateError && error.stage === 'usage',
  );
});
