// What the command line says of itself, and of lines that it does not understand: nothing here gets as far as doing something.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { headgate, linesOf, oneLineOf } from './launcher.ts';

const FLAGS: Readonly<Record<string, readonly string[]>> = {
  up: ['--cluster', '--state', '--store', '--port-base'],
  render: ['--cluster', '--node', '--out', '--options'],
  serve: ['--store', '--cluster', '--listen', '--token-file', '--operator-token-file', '--sealing-key', '--options'],
  reconcile: ['--store', '--cluster', '--sealing-key', '--options', '--json'],
  sidecar: [
    '--stream',
    '--node',
    '--state',
    '--token-file',
    '--roles',
    '--haproxy',
    '--reload-script',
    '--listen',
    '--sealing-key',
    '--take-over',
    '--cleanup',
  ],
  versions: ['--store', '--json', '--limit'],
  show: ['--store', '--json', '<version>', '[path]'],
  diff: ['--store', '--json', '<a>', '<b>'],
  rollback: ['--store', '--json', '--reason', '--roles', '--freeze', '<version>'],
  resume: ['--store', '--json', '--reason'],
  status: ['--store', '--json'],
};

test('every command explains its flags and gives an example', async () => {
  for (const [command, flags] of Object.entries(FLAGS)) {
    const { code, stdout, stderr } = await headgate([command, '--help']);
    assert.deepEqual([code, stderr], [0, ''], command);
    for (const flag of flags) assert.ok(stdout.includes(flag), `${command} ${flag}`);
    assert.match(stdout, new RegExp(`^Examples:\n  \\$ .*headgate ${command}\\b`, 'm'), command);
  }
});

test('the program lists its commands, exit codes and variables', async () => {
  const { code, stdout } = await headgate(['--help']);
  assert.equal(code, 0);
  for (const command of Object.keys(FLAGS)) assert.match(stdout, new RegExp(`^  ${command}\\b`, 'm'));
  assert.match(stdout, /0 ok, 1 failed, 2 wrong usage/);
  for (const name of ['STORE', 'TOKEN_FILE', 'OPTIONS', 'SEALING_KEY', 'LOG']) assert.ok(stdout.includes(`HEADGATE_${name}`), name);
  assert.deepEqual(await headgate(['--version']), { code: 0, stdout: '0.1.0\n', stderr: '' });
});

test('without a command it explains itself, which is no success', async () => {
  const { code, stdout, stderr } = await headgate([]);
  assert.deepEqual([code, stdout], [2, '']);
  assert.match(stderr, /^Usage: headgate/);
});

const WRONG: readonly (readonly [argv: string, says: RegExp])[] = [
  ['verions', /unknown command 'verions' \(Did you mean versions\?\); see `headgate --help`$/],
  ['versions --bogus', /unknown option '--bogus'; see `headgate versions --help`$/],
  ['versions extra', /too many arguments for 'versions'/],
  ['versions --limit 0', /--limit.*'0' is invalid.*expected a number above 0/],
  ['show', /missing required argument 'version'/],
  ['show seven', /'seven' is invalid.*expected a version number, for example 7/],
  ['show 0', /expected a version number/],
  ['diff 1', /missing required argument 'b'/],
  ['rollback 1', /required option '--reason <text>' not specified; see `headgate rollback --help`$/],
  ['rollback 1 --reason x --roles router,proxy', /--roles.*expected router, service-proxy, or both/],
  ['render --cluster c --out o', /required option '--node <name>' not specified/],
  ['render --cluster c --out o --node Node_1', /--node.*expected the name of a Kubernetes Node/],
  ['reconcile --store file:///tmp/x', /required option '--cluster <path>' not specified/],
  ['reconcile --store file:///tmp/x --cluster kubernetes', /API server is not built yet; give a folder of manifests with --cluster/],
  ['serve --cluster c --listen 127.0.0.1:0', /required option '--token-file <file>' not specified/],
  ['serve --cluster c --token-file t', /required option '--listen <host:port>' not specified/],
  ['serve --cluster c --token-file t --listen 80', /--listen.*expected HOST:PORT, for example 127\.0\.0\.1:8080/],
  ['serve --cluster c --token-file t --listen 127.0.0.1:65536', /expected HOST:PORT/],
  ['serve --cluster - --token-file t --listen 127.0.0.1:0', /give a folder with --cluster DIR/],
  ['sidecar', /sidecar needs --node NAME/],
  ['sidecar --node n', /sidecar needs --stream ws:\/\/HOST:PORT\/stream/],
  ['sidecar --node n --stream ws://h:1/stream', /sidecar needs --token-file FILE \(or HEADGATE_TOKEN_FILE\)/],
  ['sidecar --node n --stream http://h:1/', /--stream.*expected ws:\/\/HOST:PORT\/stream/],
  ['sidecar --node n --stream ws://h:1/stream --roles x', /--roles.*expected router, service-proxy, or both/],
  ['up --port-base 65532', /--port-base.*expected a port, 1 to 65531/],
  ['up --port-base x', /expected a port/],
  ['versions', /which store\? give --store URL \(file:\/\/\/path\) or set HEADGATE_STORE/],
  ['status --store /var/lib/headgate', /"\/var\/lib\/headgate" is not the URL of a store: write file:\/\/\/path/],
  ['status --store file://elsewhere/path', /does not name a folder of this machine/],
  ['status --store s3://bucket/prefix', /not supported by this release; use file:\/\/\/path/],
];

test('wrong usage is exit code 2 and one line that says what was expected', async (t) => {
  const cwd = temporaryFolder(t);
  for (const [argv, says] of WRONG) assert.match(oneLineOf(await headgate(argv.split(' '), { cwd }), 2), says, argv);
  const level = await headgate(['reconcile', '--cluster', 'c', '--store', 'file:///tmp/x'], { cwd, env: { HEADGATE_LOG: 'loud' } });
  assert.match(oneLineOf(level, 2), /HEADGATE_LOG is none of trace, debug/);
});

test('nothing that is named on the command line can move the cursor', async (t) => {
  const hostile = 'a\u001b[31m\u202e\nb';
  const cwd = temporaryFolder(t);
  for (const argv of [[hostile], ['versions', `--${hostile}`], ['status', '--store', `file:///${hostile}`], ['show', hostile]]) {
    const { stderr } = await headgate(argv, { cwd });
    assert.equal(linesOf(stderr).length, 1, stderr);
    assert.doesNotMatch(stderr, /[^\P{Cc}\n]|\p{Cf}/u);
  }
});
