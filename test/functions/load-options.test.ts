import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, describe, test } from 'node:test';
import { defaultOptions, loadOptions } from '../../functions/load-options.ts';
import type { Options } from '../../functions/options.ts';
import { HeadgateError } from '../../shared/error.ts';
import { temporaryFolder, writeFiles } from '../fixtures/temporary-folder.ts';

const CERTIFICATE = '-----BEGIN CERTIFICATE-----\nQ0VSVA==\n-----END CERTIFICATE-----\n';
const KEY = '-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n';
const OTHER_KEY = '-----BEGIN RSA PRIVATE KEY-----\nb3RoZXI=\n-----END RSA PRIVATE KEY-----\n';

/** Options that stand in a folder with other files. */
async function load(context: TestContext, options: string, files: Readonly<Record<string, string>> = {}): Promise<Options> {
  return loadOptions(written(context, options, files));
}

function written(context: TestContext, options: string, files: Readonly<Record<string, string>> = {}): string {
  const folder = temporaryFolder(context);
  writeFiles(folder, { 'options.yaml': options, ...files });
  return join(folder, 'options.yaml');
}

/** The refusal's message without the option file's path and with other paths relative to its folder. */
async function refusal(context: TestContext, options: string, files: Readonly<Record<string, string>> = {}): Promise<string> {
  const file = written(context, options, files);
  const error = await loadOptions(file).then(
    () => assert.fail(`expected a refusal of ${options}`),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof HeadgateError, String(error));
  assert.deepEqual([error.code, error.stage], ['bad-options', 'options']);
  assert.doesNotMatch(error.message, /\n|hunter2|aHVudGVy/);
  assert.ok(error.message.startsWith(`${file}:`), error.message);
  return error.message
    .slice(file.length + 1)
    .trimStart()
    .replaceAll(file.replace('options.yaml', ''), '');
}

describe('no file, no keys', () => {
  test('are the defaults', async (context) => {
    const defaults = defaultOptions();
    assert.deepEqual(await loadOptions(null), defaults);
    for (const text of ['', '# nothing\n', '---\n', 'router:\n', '{}\n'])
      assert.deepEqual(await load(context, text), defaults, JSON.stringify(text));
    assert.deepEqual(defaults.files, { defaultCertificate: null, defaultDestinationCA: null, statsPassword: null });
    assert.deepEqual([defaults.router.httpPort, defaults.router.statsUser, defaults.router.templates], [80, null, {}]);
  });

  test('what the router is told holds no path and no secret', () => {
    const keys = Object.keys(defaultOptions().router);
    for (const key of ['defaultCertificate', 'defaultDestinationCA', 'stats']) assert.ok(!keys.includes(key), key);
  });
});

test('values of the file', async (context) => {
  const options = await load(context, 'router: {httpPort: 8080, serverTimeout: 5s}\niptables: {masqueradeAll: true}\n');
  assert.deepEqual([options.router.httpPort, options.router.serverTimeout, options.iptables.masqueradeAll], [8080, 5_000, true]);
});

describe('the default certificate', () => {
  const certificateOf = async (context: TestContext, value: string, files: Readonly<Record<string, string>> = {}) =>
    (await load(context, `router:\n  defaultCertificate: ${value}\n`, files)).files.defaultCertificate;

  test('a file, relative to the option file', async (context) => {
    assert.deepEqual(await certificateOf(context, 'tls/all.pem', { 'tls/all.pem': CERTIFICATE + KEY }), { pem: CERTIFICATE + KEY });
  });

  test('a file by its whole path', async (context) => {
    const folder = temporaryFolder(context);
    writeFiles(folder, { 'all.pem': KEY + CERTIFICATE });
    assert.deepEqual(await certificateOf(context, join(folder, 'all.pem')), { pem: KEY + CERTIFICATE });
  });

  test('a folder with tls.crt and tls.key', async (context) => {
    assert.deepEqual(await certificateOf(context, 'tls', { 'tls/tls.crt': CERTIFICATE, 'tls/tls.key': KEY }), { pem: CERTIFICATE + KEY });
    const unended = await certificateOf(context, 'tls', { 'tls/tls.crt': CERTIFICATE.trimEnd(), 'tls/tls.key': KEY });
    assert.deepEqual(unended, { pem: CERTIFICATE + KEY });
  });

  test('a key inside tls.crt wins, and tls.key need not be there', async (context) => {
    const bundled = { pem: CERTIFICATE + OTHER_KEY };
    assert.deepEqual(await certificateOf(context, 'tls', { 'tls/tls.crt': CERTIFICATE + OTHER_KEY, 'tls/tls.key': KEY }), bundled);
    assert.deepEqual(await certificateOf(context, 'tls', { 'tls/tls.crt': CERTIFICATE + OTHER_KEY }), bundled);
  });

  test('PEM in the option file', async (context) => {
    const inline = `|\n${(CERTIFICATE + KEY).replace(/^/gm, '    ')}`;
    const found = await certificateOf(context, inline);
    assert.ok(found !== null && 'pem' in found);
    assert.equal(found.pem.trimEnd(), (CERTIFICATE + KEY).trimEnd());
  });

  test('a Secret by its name', async (context) => {
    assert.deepEqual(await certificateOf(context, '{secret: web/tls}'), { secret: 'web/tls' });
  });

  const bad: readonly (readonly [string, Readonly<Record<string, string>>, string])[] = [
    ['nowhere.pem', {}, 'nowhere.pem cannot be read: no such file or folder'],
    ['tls', { 'tls/other': '' }, 'tls/tls.crt cannot be read: no such file or folder'],
    ['tls', { 'tls/tls.crt': CERTIFICATE }, 'tls/tls.key cannot be read: no such file or folder'],
    ['tls/tls.crt/x', { 'tls/tls.crt': CERTIFICATE }, 'tls/tls.crt/x cannot be read: not a folder'],
    ['all.pem', { 'all.pem': CERTIFICATE }, 'expected PEM with a private key too, and there is none'],
    ['all.pem', { 'all.pem': KEY }, 'expected PEM with a certificate, and there is none'],
    ['all.pem', { 'all.pem': 'hunter2' }, 'expected PEM with a certificate, and there is none'],
    ['tls', { 'tls/tls.crt': CERTIFICATE, 'tls/tls.key': 'hunter2' }, 'expected PEM with a private key too, and there is none'],
  ];
  for (const [value, files, message] of bad) {
    test(`${value}: ${message}`, async (context) => {
      assert.equal(await refusal(context, `router: {defaultCertificate: ${value}}\n`, files), `router.defaultCertificate: ${message}`);
    });
  }
});

describe('the CA for pods', () => {
  test('a file, or PEM', async (context) => {
    assert.equal(
      (await load(context, 'router: {defaultDestinationCA: ca.pem}', { 'ca.pem': CERTIFICATE })).files.defaultDestinationCA,
      CERTIFICATE,
    );
    const inline = await load(context, `router:\n  defaultDestinationCA: |\n${CERTIFICATE.replace(/^/gm, '    ')}`);
    assert.equal(inline.files.defaultDestinationCA?.trimEnd(), CERTIFICATE.trimEnd());
  });

  test('not there, a folder, or none', async (context) => {
    const ca = 'router: {defaultDestinationCA: ca}\n';
    assert.equal(await refusal(context, ca), 'router.defaultDestinationCA: ca cannot be read: no such file or folder');
    assert.equal(await refusal(context, ca, { 'ca/x': '' }), 'router.defaultDestinationCA: ca cannot be read: it is a folder');
    assert.equal(
      await refusal(context, ca, { ca: KEY }),
      'router.defaultDestinationCA: expected PEM with a certificate, and there is none',
    );
  });
});

describe('the stats page', () => {
  const STATS = 'router:\n  stats: {user: admin, passwordFile: secrets/password}\n';

  test('its user and password', async (context) => {
    for (const [content, password] of [
      ['hunter 2!', 'hunter 2!'],
      ['hunter2\n', 'hunter2'],
      ['hunter2\r\n', 'hunter2'],
      [' hunter2 \n', ' hunter2 '],
    ] as const) {
      const options = await load(context, STATS, { 'secrets/password': content });
      assert.deepEqual([options.router.statsUser, options.files.statsPassword], ['admin', password]);
      assert.doesNotMatch(JSON.stringify(options.router), /hunter/);
    }
  });

  test('a password that is none', async (context) => {
    for (const content of ['', '\n', 'hunter2\nhunter2\n', 'hunter2\0', 'hunter2é']) {
      assert.equal(
        await refusal(context, STATS, { 'secrets/password': content }),
        'router.stats.passwordFile: secrets/password: expected one line of printable ASCII',
      );
    }
    assert.equal(await refusal(context, STATS), 'router.stats.passwordFile: secrets/password cannot be read: no such file or folder');
  });
});

describe('templates', () => {
  const TEMPLATES = 'router: {templates: custom}\n';

  test('those that are there, by name', async (context) => {
    const files = { 'custom/backend.hbs': 'B', 'custom/README.md': 'x', 'custom/.base.hbs.swp': 'x', 'custom/.other.hbs': 'x' };
    assert.deepEqual((await load(context, TEMPLATES, files)).router.templates, { backend: 'B' });
    assert.deepEqual((await load(context, TEMPLATES, { 'custom/backend.hbs': 'B', 'custom/base.hbs': '' })).router.templates, {
      backend: 'B',
      base: '',
    });
  });

  test('a name that we do not know, no template at all, no folder', async (context) => {
    assert.equal(
      await refusal(context, TEMPLATES, { 'custom/base.hbs': '', 'custom/frontend.hbs': '' }),
      'router.templates: custom/frontend.hbs: no such template; known are base.hbs and backend.hbs',
    );
    assert.equal(
      await refusal(context, TEMPLATES, { 'custom/readme': '' }),
      'router.templates: custom: expected base.hbs or backend.hbs in this folder',
    );
    assert.equal(await refusal(context, TEMPLATES), 'router.templates: custom cannot be read: no such file or folder');
    assert.equal(await refusal(context, TEMPLATES, { custom: '' }), 'router.templates: custom cannot be read: not a folder');
  });
});

describe('an option file that is none', () => {
  test('not there, or a folder', async (context) => {
    const folder = temporaryFolder(context);
    mkdirSync(join(folder, 'options'));
    for (const [name, why] of [
      ['nowhere.yaml', 'no such file or folder'],
      ['options', 'it is a folder'],
    ] as const) {
      const path = join(folder, name);
      await assert.rejects(loadOptions(path), {
        code: 'missing-options',
        stage: 'options',
        message: `${path}: the options cannot be read: ${why}`,
      });
    }
  });

  test('YAML that does not parse names its line', async (context) => {
    assert.match(await refusal(context, 'router:\n  httpPort: 80\n  httpPort: hunter2\n'), /^3: .*unique/);
    assert.match(await refusal(context, 'router: {\n'), /^2: /);
    assert.match(await refusal(context, 'router: "hunter2\n'), /^2: /);
  });

  test('two documents', async (context) => {
    assert.equal(await refusal(context, 'router: {}\n---\nrouter: {}\n'), '3: a second document; options are one');
  });

  test('wrong values name their key', async (context) => {
    assert.equal(await refusal(context, 'router: {httpPort: x}\n'), 'router.httpPort: expected a whole number, found text');
    assert.equal(await refusal(context, '- router\n'), 'the file: expected keys and values, found a list');
  });
});

test('options that have no effect yet are accepted, checked, and named', async (t) => {
  const folder = temporaryFolder(t);
  const text = [
    'router:',
    '  httpPort: 8080',
    '  peersService: router/peers',
    '  blueprints: { namespace: blueprints, labels: { a: b }, poolSize: 3, profiles: [http] }',
    '  maxDynamicServers: 7',
    '  dynamicServerPrefix: _spare',
  ].join('\n');
  writeFiles(folder, { 'options.yaml': text, 'bad.yaml': 'router: { blueprints: { namespace: a, poolSize: many } }' });
  const { router, withoutEffect } = await loadOptions(join(folder, 'options.yaml'));
  assert.deepEqual(
    withoutEffect,
    ['peersService', 'blueprints', 'maxDynamicServers', 'dynamicServerPrefix'].map((key) => `router.${key}`),
  );
  assert.equal('blueprints' in router, false);
  await assert.rejects(loadOptions(join(folder, 'bad.yaml')), /router\.blueprints\.poolSize/);
});
