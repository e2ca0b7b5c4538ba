import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { generationName, Generations } from '../../../sidecar/haproxy/generations.ts';
import { routerPaths } from '../../../sidecar/haproxy/paths.ts';

async function open(t: TestContext): Promise<{ generations: Generations; folder: string }> {
  const state = await mkdtemp(join(tmpdir(), `hg-generations-${process.pid}-`));
  t.after(() => rm(state, { recursive: true }));
  const paths = routerPaths(state);
  await mkdir(paths.generations, { recursive: true });
  return { generations: new Generations(paths), folder: paths.generations };
}

function generation(text: string, certificate = 'pem') {
  const files = new Map([
    ['router/config/00-base.cfg', text],
    ['router/certificates/ns:a.pem', certificate],
  ]);
  return { name: generationName(files, 'local'), files };
}

test('written whole, private, read back, and named by all that HAProxy reads', async (t) => {
  const { generations, folder } = await open(t);
  const one = generation('one');
  await generations.write(one, 'local', null);
  const read = await generations.read(one.name);
  assert.deepEqual(new Map([...read.files].map(([path, bytes]) => [path, String(bytes)])), one.files);
  assert.equal((await stat(join(folder, one.name))).mode & 0o777, 0o700);
  assert.equal((await stat(join(folder, one.name, 'certificates/ns:a.pem'))).mode & 0o777, 0o600);
  assert.notEqual(generationName(one.files, 'another local'), one.name);
  assert.equal(generationName(new Map([...one.files].toReversed()), 'local'), one.name);
});

test('one that is there is left alone, unless its files are not those of its name', async (t) => {
  const { generations, folder } = await open(t);
  const one = generation('one');
  assert.equal(await generations.write(one, 'local', null), false);
  const inode = async (): Promise<number> => (await stat(join(folder, one.name))).ino;
  const first = await inode();
  assert.equal(await generations.write(one, 'local', null), false);
  assert.equal(await inode(), first);
  for (const damaged of ['config/00-base.cfg', 'local.cfg']) {
    await writeFile(join(folder, one.name, damaged), 'o');
    await assert.rejects(
      generations.read(one.name).then((read) => generations.verify(read)),
      { code: 'generation-damaged' },
    );
    assert.equal(await generations.write(one, 'local', null), true);
    await generations.verify(await generations.read(one.name));
  }
});

test('equal files are linked, different ones are not', async (t) => {
  const { generations, folder } = await open(t);
  const [one, two] = [generation('one'), generation('two')];
  await generations.write(one, 'local', null);
  await generations.write(two, 'local', await generations.read(one.name));
  const inode = async (name: string, path: string): Promise<number> => (await stat(join(folder, name, path))).ino;
  assert.equal(await inode(one.name, 'certificates/ns:a.pem'), await inode(two.name, 'certificates/ns:a.pem'));
  assert.equal(await readFile(join(folder, two.name, 'config/00-base.cfg'), 'utf8'), 'two');
});

test('current is none, then what it was switched to; a check holds for one version', async (t) => {
  const { generations } = await open(t);
  const one = generation('one');
  assert.equal(await generations.current(), null);
  await generations.write(one, 'local', null);
  await generations.switchTo(one.name);
  assert.equal(await generations.current(), one.name);
  await generations.markChecked(one.name, '2.6');
  assert.deepEqual([await generations.isChecked(one.name, '2.6'), await generations.isChecked(one.name, '3.0')], [true, false]);
});

test('old ones are removed with their certificates, the kept one and half-written ones told apart', async (t) => {
  const { generations, folder } = await open(t);
  const all = ['a', 'b', 'c', 'd'].map((text) => generation(text));
  for (const [age, each] of all.entries()) {
    await generations.write(each, 'local', null);
    await utimes(join(folder, each.name), 1000 + age, 1000 + age);
  }
  await mkdir(join(folder, '.half'));
  const [oldest, , third, newest] = all.map(({ name }) => name);
  await generations.removeOld(2, [oldest ?? null]);
  assert.deepEqual(new Set(await readdir(folder)), new Set([oldest, third, newest]));
});
