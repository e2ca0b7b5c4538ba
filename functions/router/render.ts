// Prints router state as the files of a version: templates for sections, one line an entry for maps and crt-lists, JSON
// for what a plan compares. Everything of which there can be many is spread over shards.

import type { Files } from '../../shared/files.ts';
import { digestOf, shardOf } from '../../shared/digest.ts';
import { canonicalJson, compareText } from '../../shared/json.ts';
import { crtListLine, mapLine } from '../../shared/router/escape.ts';
import type { BackendState } from '../../shared/router/state.ts';
import { shardEntries } from '../../shared/shard.ts';
import type { Backend, RouterState } from './state.ts';
import { compileTemplate } from './template.ts';
import baseSource from './templates/base.hbs';
import backendSource from './templates/backend.hbs';

/**
 * The files of router state: `router/config/...` (stanzas with a placeholder for their servers), `router/state/<xx>`,
 * `router/maps/<map>/<xx>`, `router/crt-list/<xx>` and `routes/<xx>`, which stays in the store.
 * @throws HeadgateError `bad-template` (stage `compute`) naming the template and the line
 */
export function renderRouter(state: RouterState): Files {
  const { templates, dynamic } = state.base.options;
  const printBase = compileTemplate('base', templates['base'] ?? baseSource);
  const printBackend = compileTemplate('backend', templates['backend'] ?? backendSource);
  const stanzas = state.backends.map((backend) => ({ backend, text: printBackend(backend) }));
  const entriesOf = dynamic ? null : entriesByBackend(state);
  const states = stanzas.map(({ backend, text }): BackendState => {
    const fixed = entriesOf === null ? digestOf(text) : digestOf(canonicalJson([text, backend.servers, entriesOf.get(backend.name) ?? []]));
    return { backend: backend.name, fixed, cookies: backend.cookie !== null, servers: backend.servers };
  });
  return new Map([
    ['router/config/00-base.cfg', printBase(state.base)],
    ...shardStanzas(stanzas),
    ...shardEntries('router/state', states, ({ backend }) => backend),
    ...Object.entries(state.maps).flatMap(([name, entries]) => [
      ...shardLines(
        `router/maps/${name}`,
        entries,
        ({ key }) => key,
        ({ key, value }) => mapLine(key, value),
      ),
    ]),
    ...shardLines(
      'router/crt-list',
      state.crtList,
      ({ host }) => host,
      ({ certificate, alpn, host }) => crtListLine(certificate, alpn, host),
    ),
    ...shardEntries('routes', state.routes, ({ namespace, name }) => `${namespace}/${name}`),
  ]);
}

/** Without runtime changes a backend's own lookups count as fixed too, so that any change of them reloads. */
function entriesByBackend(state: RouterState): ReadonlyMap<string, readonly string[]> {
  const keys = new Map<string, string[]>();
  for (const [map, entries] of Object.entries(state.maps)) {
    for (const { key, value } of entries) keys.set(value, [...(keys.get(value) ?? []), `${map} ${key}`]);
  }
  return keys;
}

function shardStanzas(stanzas: readonly { readonly backend: Backend; readonly text: string }[]): Map<string, string> {
  const byName = stanzas.toSorted((a, b) => compareText(a.backend.name, b.backend.name));
  return joined(
    byName,
    ({ backend }) => `router/config/backends-${shardOf(backend.name)}.cfg`,
    ({ text }) => text,
  );
}

/** Lines in the order of the entries, which is that of their keys. */
function shardLines<T>(
  folder: string,
  entries: readonly T[],
  keyOf: (entry: T) => string,
  lineOf: (entry: T) => string,
): Map<string, string> {
  return joined(entries, (entry) => `${folder}/${shardOf(keyOf(entry))}`, lineOf);
}

function joined<T>(entries: readonly T[], pathOf: (entry: T) => string, textOf: (entry: T) => string): Map<string, string> {
  const parts = new Map<string, string[]>();
  for (const entry of entries) {
    const path = pathOf(entry);
    const texts = parts.get(path);
    if (texts === undefined) parts.set(path, [textOf(entry)]);
    else texts.push(textOf(entry));
  }
  return new Map([...parts].sort(([a], [b]) => compareText(a, b)).map(([path, texts]) => [path, texts.join('')]));
}
