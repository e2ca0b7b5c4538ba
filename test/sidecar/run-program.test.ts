import assert from 'node:assert/strict';
import test from 'node:test';
import { HeadgateError } from '../../shared/error.ts';
import { runProgram } from '../../sidecar/run-program.ts';

const node = process.execPath;

test('gives the input, returns the outputs and the exit status', async () => {
  const script = 'process.stdin.pipe(process.stdout); console.error("words"); process.exitCode = 3';
  const result = await runProgram([node, '-e', script], { input: 'text' });
  assert.deepEqual(result, { code: 3, stdout: 'text', stderr: 'words\n', truncated: false });
});

test('a program that does not read its input is no error', async () => {
  const result = await runProgram([node, '-e', ''], { input: 'x'.repeat(4_000_000) });
  assert.equal(result.code, 0);
});

test('input may come in pieces, and output go line by line', async () => {
  const pieces = Array.from({ length: 2_000 }, (_, index) => `${index} ${'ä'.repeat(index % 100)}\n`);
  const lines: string[] = [];
  const { code, stdout } = await runProgram(['cat'], { input: [...pieces, 'last'], onLine: (line) => lines.push(line) });
  assert.deepEqual([code, stdout], [0, '']);
  assert.equal(lines.join('\n'), `${pieces.join('')}last`);
});

test('keeps the first bytes of a long output', async () => {
  const result = await runProgram([node, '-e', 'process.stdout.write("ab".repeat(500000))'], { outputLimit: 5 });
  assert.deepEqual([result.stdout, result.truncated], ['ababa', true]);
});

test('a signal that ends it is 128 and its number', async () => {
  const result = await runProgram([node, '-e', 'process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000)']);
  assert.equal(result.code, 143);
});

test('a program that is not there is named', async () => {
  await assert.rejects(runProgram(['hg-no-such-program']), (error) => {
    return error instanceof HeadgateError && error.code === 'program-missing' && error.message.includes('hg-no-such-program');
  });
});

test('a program that takes too long is killed', async () => {
  const forever = [node, '-e', 'setInterval(() => {}, 1000)'];
  await assert.rejects(runProgram(forever, { timeoutMs: 50 }), { code: 'program-timeout' });
});

test('aborting kills it and rejects with the reason', async () => {
  const reason = new Error('stop');
  const controller = new AbortController();
  const running = runProgram([node, '-e', 'setInterval(() => {}, 1000)'], { signal: controller.signal });
  controller.abort(reason);
  await assert.rejects(running, reason);
});
