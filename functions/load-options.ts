// Reads the option file and the files that it names: certificates, the stats password, templates. A path in it is relative
// to the option file. Errors name the option file, the key, and the path; what a file holds is never repeated.

import { readFile, readdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { HeadgateError, errnoCode, errorMessage } from '../shared/error.ts';
import { compareText } from '../shared/json.ts';
import { keysWithoutEffect, type LoadedFiles, type Options, TEMPLATE_NAMES, type WrittenOptions, parseOptions } from './options.ts';
import { UnparsableText, parseYaml } from './yaml-text.ts';

/**
 * The options in a YAML file; null: the defaults.
 * @throws HeadgateError `missing-options` or `bad-options` (stage `options`), one line
 */
export async function loadOptions(file: string | null): Promise<Options> {
  if (file === null) return defaultOptions();
  const yaml = await readYaml(file);
  const written = parseOptions(yaml, file);
  const { defaultCertificate, defaultDestinationCA, stats, templates } = written.router;
  const at = (key: string): Place => ({ file, key, folder: dirname(resolve(file)) });
  return withFiles(
    written,
    {
      defaultCertificate: await readCertificate(defaultCertificate, at('router.defaultCertificate')),
      defaultDestinationCA: defaultDestinationCA === null ? null : await readCA(defaultDestinationCA, at('router.defaultDestinationCA')),
      statsPassword: stats === null ? null : await readPassword(stats.passwordFile, at('router.stats.passwordFile')),
    },
    templates === null ? {} : await readTemplates(templates, at('router.templates')),
    keysWithoutEffect(yaml),
  );
}

/** The options when nothing is written. */
export function defaultOptions(): Options {
  return withFiles(parseOptions({}, 'defaults'), { defaultCertificate: null, defaultDestinationCA: null, statsPassword: null }, {}, []);
}

function withFiles(
  written: WrittenOptions,
  files: LoadedFiles,
  templates: Readonly<Record<string, string>>,
  withoutEffect: readonly string[],
): Options {
  const { defaultCertificate: _certificate, defaultDestinationCA: _ca, stats, ...others } = written.router;
  const { peersService: _peers, blueprints: _blueprints, maxDynamicServers: _servers, dynamicServerPrefix: _prefix, ...router } = others;
  return { router: { ...router, statsUser: stats?.user ?? null, templates }, iptables: written.iptables, files, withoutEffect };
}

/** Where a value stands, for errors, and the folder that its paths are relative to. */
interface Place {
  readonly file: string;
  readonly key: string;
  readonly folder: string;
}

async function readYaml(file: string): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new HeadgateError('missing-options', 'options', `${file}: the options ${whyUnreadable(cause)}`, { cause });
  }
  try {
    const documents = parseYaml(text).filter(({ value }) => value !== null);
    const [first, second] = documents;
    if (second !== undefined) throw new UnparsableText(second.line, 'a second document; options are one');
    return first?.value;
  } catch (thrown) {
    if (thrown instanceof UnparsableText) throw new HeadgateError('bad-options', 'options', `${file}:${thrown.line}: ${thrown.message}`);
    throw thrown;
  }
}

async function readCertificate(
  written: WrittenOptions['router']['defaultCertificate'],
  place: Place,
): Promise<LoadedFiles['defaultCertificate']> {
  if (written === null) return null;
  if (typeof written === 'object') return { secret: written.secret };
  const pem = isPem(written) ? written : await readCertificateAt(resolve(place.folder, written), place);
  if (!CERTIFICATE.test(pem)) throw refused(place, 'expected PEM with a certificate, and there is none');
  if (!PRIVATE_KEY.test(pem)) throw refused(place, 'expected PEM with a private key too, and there is none');
  return { pem };
}

const CERTIFICATE = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/;
const PRIVATE_KEY = /-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----/;

function isPem(text: string): boolean {
  return text.includes('-----BEGIN ');
}

/** A file, or a folder as cert-manager and Secret mounts make it: a key inside tls.crt wins over tls.key. */
async function readCertificateAt(path: string, place: Place): Promise<string> {
  if (!(await isFolder(path, place))) return readNamed(path, place);
  const certificate = await readNamed(join(path, 'tls.crt'), place);
  return PRIVATE_KEY.test(certificate) ? certificate : `${certificate.trimEnd()}\n${await readNamed(join(path, 'tls.key'), place)}`;
}

async function readCA(written: string, place: Place): Promise<string> {
  const pem = isPem(written) ? written : await readNamed(resolve(place.folder, written), place);
  if (!CERTIFICATE.test(pem)) throw refused(place, 'expected PEM with a certificate, and there is none');
  return pem;
}

/** The file's one line. */
async function readPassword(written: string, place: Place): Promise<string> {
  const path = resolve(place.folder, written);
  const password = (await readNamed(path, place)).replace(/\r?\n$/, '');
  if (!/^[\x20-\x7e]+$/.test(password)) throw refused(place, `${path}: expected one line of printable ASCII`);
  return password;
}

async function readTemplates(written: string, place: Place): Promise<Record<string, string>> {
  const folder = resolve(place.folder, written);
  const files = (await namesIn(folder, place)).filter((name) => name.endsWith('.hbs') && !name.startsWith('.')).sort(compareText);
  const known: readonly string[] = TEMPLATE_NAMES.map((name) => `${name}.hbs`);
  const unknown = files.find((name) => !known.includes(name));
  if (unknown !== undefined) throw refused(place, `${join(folder, unknown)}: no such template; known are ${known.join(' and ')}`);
  if (files.length === 0) throw refused(place, `${folder}: expected ${known.join(' or ')} in this folder`);
  const sources = files.map(async (name) => [name.slice(0, -'.hbs'.length), await readNamed(join(folder, name), place)] as const);
  return Object.fromEntries(await Promise.all(sources));
}

async function readNamed(path: string, place: Place): Promise<string> {
  return reading(path, place, () => readFile(path, 'utf8'));
}

async function namesIn(folder: string, place: Place): Promise<string[]> {
  return reading(folder, place, () => readdir(folder));
}

async function isFolder(path: string, place: Place): Promise<boolean> {
  return (await reading(path, place, () => stat(path))).isDirectory();
}

async function reading<T>(path: string, place: Place, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    throw refused(place, `${path} ${whyUnreadable(cause)}`, cause);
  }
}

function whyUnreadable(cause: unknown): string {
  const code = errnoCode(cause);
  if (code === 'ENOENT') return 'cannot be read: no such file or folder';
  if (code === 'EISDIR') return 'cannot be read: it is a folder';
  if (code === 'ENOTDIR') return 'cannot be read: not a folder';
  return `cannot be read: ${code ?? errorMessage(cause)}`;
}

function refused(place: Place, message: string, cause?: unknown): HeadgateError {
  return new HeadgateError('bad-options', 'options', `${place.file}: ${place.key}: ${message}`, { cause });
}
