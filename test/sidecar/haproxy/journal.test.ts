import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { digestOf } from '../../../shared/digest.ts';
import { type JournalEntry, readJournal, runningGeneration, writeJournal } from '../../../sidecar/haproxy/journal.ts';

const [FROM, TO, LOADED] = [digestOf('from'), digestOf('to'), digestOf('loaded')];
const entry = (stage: JournalEntry['stage'], pid: number | null = 7): JournalEntry => ({ from: FROM, to: TO, stage, pid });
const worker = { pid: 7, description: LOADED, version: '2.6.12' };

test('what a worker runs', () => {
  assert.equal(runningGeneration(null, worker), LOADED);
  assert.equal(runningGeneration(entry('applied'), worker), TO);
  assert.equal(runningGeneration(entry('reload'), worker), FROM);
  assert.equal(runningGeneration(entry('commands'), worker), null, 'cut off between commands');
  for (const stage of ['applied', 'reload', 'commands', 'start'] as const) {
    assert.equal(runningGeneration(entry(stage, 8), worker), LOADED, `another worker, ${stage}`);
  }
  assert.equal(runningGeneration(null, { ...worker, description: 'of somebody else' }), null);
});

test('kept on disk, and what cannot be read is none', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), `hg-journal-${process.pid}-`));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, 'journal');
  assert.equal(await readJournal(path), null);
  await writeJournal(path, entry('commands'));
  assert.deepEqual(await readJournal(path), entry('commands'));
  await writeFile(path, '{"from":');
  assert.equal(await readJournal(path), null);
});
