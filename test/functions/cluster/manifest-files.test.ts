import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { isManifestName, listManifestFiles } from '../../../functions/cluster/manifest-files.ts';
import { HeadgateError } from '../../../shared/error.ts';
import { temporaryFolder, writeFiles } from '../../fixtures/temporary-folder.ts';

const namesIn = (folder: string): string[] => listManifestFiles(folder).files.map(({ path }) => relative(folder, path));

function refusal(path: string): HeadgateError {
  try {
    listManifestFiles(path);
  } catch (error) {
    assert.ok(error instanceof HeadgateError, String(error));
    assert.equal(error.stage, 'read-cluster');
    return error;
  }
  return assert.fail('expected a refusal');
}

test('manifests by their name', () => {
  for (const name of ['a.yaml', 'a.yml', 'a.json', 'a.b.yaml']) assert.ok(isManifestName(name), name);
  for (const name of ['a', 'a.txt', 'a.yaml~', 'a.yaml.bak', '.a.yaml', '.a.yaml.swp', 'yaml', 'a.YAML', '..data'])
    assert.ok(!isManifestName(name), name);
});

test('what is named as something else is no manifest, wherever it lies', (context) => {
  const folder = temporaryFolder(context);
  writeFiles(folder, { 'a.yaml': '', 'options.yaml': '', 'out/rejections.json': '', 'other/options.yaml': '' });
  const others = ['options.yaml', 'out', 'absent'].map((name) => join(folder, name));
  const { files, folders } = listManifestFiles(folder, others);
  assert.deepEqual(
    files.map(({ path }) => relative(folder, path)),
    ['a.yaml', 'other/options.yaml'],
  );
  assert.ok(!folders.some(({ path }) => path.endsWith('out')));
});

test('at any depth, in order; hidden entries and other files are skipped', (context) => {
  const folder = temporaryFolder(context);
  writeFiles(folder, {
    'b.yaml': '',
    'a.json': '',
    'c/d/e.yml': '',
    'c/readme.md': '',
    '.hidden.yaml': '',
    '.git/x.yaml': '',
    'c/.d/x.yaml': '',
    'e.yaml~': '',
  });
  mkdirSync(join(folder, 'looks-like.yaml'));
  writeFiles(folder, { 'looks-like.yaml/in.yaml': '' });
  assert.deepEqual(namesIn(folder), ['a.json', 'b.yaml', 'c/d/e.yml', 'looks-like.yaml/in.yaml']);
  assert.deepEqual(
    listManifestFiles(folder).folders.map(({ path }) => relative(folder, path)),
    ['', 'c', 'looks-like.yaml', 'c/d'],
  );
});

test('an empty folder holds nothing', (context) => assert.deepEqual(namesIn(temporaryFolder(context)), []));

test('one file, whatever its name', (context) => {
  const folder = temporaryFolder(context);
  writeFiles(folder, { 'anything.txt': 'x', 'other.yaml': '' });
  const listing = listManifestFiles(join(folder, 'anything.txt'));
  assert.deepEqual(
    listing.files.map(({ path, size }) => [path, size]),
    [[join(folder, 'anything.txt'), 1]],
  );
  assert.deepEqual(
    listing.folders.map(({ path }) => path),
    [folder],
  );
});

test('links are followed, loops end', (context) => {
  const folder = temporaryFolder(context);
  const elsewhere = temporaryFolder(context);
  writeFiles(folder, { 'a/one.yaml': '' });
  writeFiles(elsewhere, { 'two.yaml': '', 'three.yaml': '' });
  symlinkSync(folder, join(folder, 'a/up'));
  symlinkSync('.', join(folder, 'self'));
  symlinkSync(elsewhere, join(folder, 'link'));
  symlinkSync(elsewhere, join(folder, 'link-again'));
  symlinkSync(join(elsewhere, 'two.yaml'), join(folder, 'linked.yaml'));
  assert.deepEqual(namesIn(folder), ['a/one.yaml', 'link/three.yaml', 'link/two.yaml', 'linked.yaml']);
});

test('a mounted ConfigMap is read once, through its visible links', (context) => {
  const folder = temporaryFolder(context);
  writeFiles(folder, { '..2024_01/routes.yaml': 'a' });
  symlinkSync('..2024_01', join(folder, '..data'));
  symlinkSync('..data/routes.yaml', join(folder, 'routes.yaml'));
  assert.deepEqual(namesIn(folder), ['routes.yaml']);
});

test('a mark changes with the content, the file and the link', (context) => {
  const folder = temporaryFolder(context);
  const path = join(folder, 'a.yaml');
  const marks = new Set<string>();
  const remember = (): void => {
    const [file] = listManifestFiles(folder).files;
    assert.ok(file !== undefined);
    assert.ok(!marks.has(file.mark), 'expected another mark');
    marks.add(file.mark);
  };
  writeFileSync(path, 'a');
  remember();
  writeFileSync(path, 'ab');
  remember();
  writeFileSync(join(folder, '.new'), 'ab');
  renameSync(join(folder, '.new'), path);
  remember();
  assert.ok(marks.has(listManifestFiles(folder).files[0]?.mark ?? ''));
});

test('what cannot be listed is an error that names it', (context) => {
  const folder = temporaryFolder(context);
  const missing = refusal(join(folder, 'nowhere'));
  assert.equal(missing.code, 'missing-manifests');
  assert.equal(
    missing.message,
    `${join(folder, 'nowhere')}: no such file or folder; name a manifest, a folder of manifests, or - for standard input`,
  );
  writeFiles(folder, { 'a.yaml': '' });
  assert.equal(refusal(join(folder, 'a.yaml/b')).code, 'unreadable-manifests');
  symlinkSync('nowhere', join(folder, 'dangling.yaml'));
  assert.equal(refusal(folder).code, 'missing-manifests');
  assert.match(refusal(folder).message, /dangling\.yaml/);
});

test('a link that leads only to itself is an error, not a hang', (context) => {
  const folder = temporaryFolder(context);
  symlinkSync('loop.yaml', join(folder, 'loop.yaml'));
  assert.match(refusal(folder).message, /loop\.yaml: cannot be read \(ELOOP\)/);
});

test('pipes and sockets are no manifests', (context) => {
  const folder = temporaryFolder(context);
  execFileSync('mkfifo', [join(folder, 'pipe.yaml')]);
  assert.deepEqual(namesIn(folder), []);
});
