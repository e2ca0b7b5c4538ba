import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { reportNodes, reportToAll } from '../../functions/stream-reports.ts';
import type { Hello, Result } from '../../shared/protocol.ts';

const hello = (node: string): Hello => ({
  type: 'hello',
  node,
  roles: ['router'],
  sequence: 0,
  content: { router: null, 'service-proxy': null },
  tools: {},
});

const RESULT: Result = {
  type: 'result',
  role: 'router',
  sequence: 1,
  version: 1,
  outcome: 'applied',
  how: 'reload',
  stage: null,
  message: '',
  durationMs: 1,
  time: '2025-01-01T00:00:00.000Z',
};

function listener() {
  const heard: string[] = [];
  return {
    heard,
    connected: ({ node }: Hello) => void heard.push(`${node} connected`),
    result: (node: string, { role }: Result) => void heard.push(`${node} ${role}`),
    disconnected: (node: string) => void heard.push(`${node} disconnected`),
  };
}

test('a node that came back before its old stream ended is still there, and may be two: that is said once', () => {
  const all = listener();
  const said: string[] = [];
  const reports = reportNodes(all, pino({ level: 'warn' }, { write: (line: string) => void said.push(line) }));
  reports.connected(hello('a'));
  reports.connected(hello('b'));
  reports.connected(hello('a'));
  reports.disconnected('a');
  reports.result('a', RESULT);
  reports.disconnected('b');
  reports.disconnected('a');
  assert.deepEqual(all.heard, ['a connected', 'b connected', 'a connected', 'a router', 'b disconnected', 'a disconnected']);
  assert.equal(said.length, 1);
  assert.match(said.join(), /"node":"a".*two machines have its name/);
});

test('all listeners hear everything', () => {
  const [one, two] = [listener(), listener()];
  const reports = reportToAll([one, two]);
  reports.connected(hello('a'));
  reports.result('a', RESULT);
  reports.disconnected('a');
  assert.deepEqual(one.heard, ['a connected', 'a router', 'a disconnected']);
  assert.deepEqual(two.heard, one.heard);
});
