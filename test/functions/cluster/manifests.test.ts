import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { readManifests } from '../../../functions/cluster/manifests.ts';
import { HeadgateError } from '../../../shared/error.ts';

const ROUTE = 'apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {name: r}\nspec: {to: {name: s}}\n';
const SERVICE = 'apiVersion: v1\nkind: Service\nmetadata: {name: s}\n';
const OTHER = 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: 5\n';

const found = (text: string, file = 'x.yaml'): string[] => readManifests(text, file).map(({ kind, name }) => `${kind}/${name}`);

function refusal(text: string, file = 'x.yaml'): string {
  try {
    readManifests(text, file);
  } catch (error) {
    assert.ok(error instanceof HeadgateError, String(error));
    assert.deepEqual([error.code, error.stage], ['bad-manifest', 'read-cluster']);
    assert.match(error.message, /^[\x20-\x7e]+$/);
    return error.message;
  }
  return assert.fail(`expected a refusal of ${JSON.stringify(text)}`);
}

describe('what a manifest holds', () => {
  test('several documents, empty ones between them', () => {
    assert.deepEqual(found(`---\n---\n${ROUTE}---\n# nothing\n---\n${SERVICE}---\n`), ['Route/r', 'Service/s']);
  });

  test('nothing', () => {
    for (const text of ['', '\n', '# comment\n', '---\n', 'null\n', '---\n...\n']) assert.deepEqual(found(text), [], JSON.stringify(text));
  });

  test('kinds that are none of ours are passed over, whatever they hold', () => {
    assert.deepEqual(found(`${OTHER}---\n${ROUTE}`), ['Route/r']);
    assert.deepEqual(found('apiVersion: x/v1\nkind: AllowList\nmetadata: {name: a}\n'), []);
    assert.deepEqual(found('apiVersion: v1\nkind: DeploymentList\nitems: [{}, {}]\n'), []);
  });

  test('a List, and lists within it', () => {
    const list = {
      apiVersion: 'v1',
      kind: 'List',
      items: [
        { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' } },
        { apiVersion: 'v1', kind: 'List', items: [{ apiVersion: 'v1', kind: 'Service', metadata: { name: 'b' } }] },
        { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'c' } },
      ],
    };
    assert.deepEqual(found(JSON.stringify(list), 'x.json'), ['Service/a', 'Service/b']);
    assert.deepEqual(found(JSON.stringify(list), 'x.yaml'), ['Service/a', 'Service/b']);
  });

  test('a typed list, whose items need not say what they are', () => {
    const items = '[{metadata: {name: a}, spec: {to: {name: s}}}, {apiVersion: v1, kind: Service, metadata: {name: b}}]';
    assert.deepEqual(found(`apiVersion: route.openshift.io/v1\nkind: RouteList\nitems: ${items}\n`), ['Route/a', 'Service/b']);
    assert.deepEqual(
      found('apiVersion: discovery.k8s.io/v1\nkind: EndpointSliceList\nitems: [{metadata: {name: a}, addressType: 5}]\n'),
      [],
    );
  });

  test('empty lists', () => {
    for (const items of ['items: []', 'items: null', 'items:', '']) assert.deepEqual(found(`apiVersion: v1\nkind: List\n${items}\n`), []);
    assert.deepEqual(found('apiVersion: v1\nkind: ServiceList\nitems: null\n'), []);
  });

  test('an object that parses and is wrong is a rejection, not an error', () => {
    const [projection] = readManifests('apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: x}\n', 'x.yaml');
    assert.equal(projection?.projected, null);
    assert.equal(projection?.rejections[0]?.field, 'spec.ports');
  });
});

describe('what is no manifest', () => {
  const table: readonly (readonly [string, RegExp])[] = [
    ['just text\n', /^x\.yaml:1: expected an object/],
    ['- a\n- b\n', /^x\.yaml:1: expected an object/],
    ['5\n', /^x\.yaml:1: expected an object/],
    [`${ROUTE}---\n[]\n`, /^x\.yaml:6: expected an object/],
    ['{}\n', /^x\.yaml:1: the object has no kind/],
    ['\n\nmetadata: {name: a}\n', /^x\.yaml:3: the object has no kind/],
    ['apiVersion: v1\nkind: ""\n', /has no kind/],
    ['apiVersion: v1\nkind: 5\n', /has no kind/],
    ['apiVersion: v1\nkind: [Route]\n', /has no kind/],
    ['kind: Service\nmetadata: {name: a}\n', /kind "Service" has no apiVersion/],
    ['kind: Service\napiVersion: 1\n', /has no apiVersion/],
    ['kind: "a\\nb"\n', /kind "a\\nb" has no apiVersion/],
    ['apiVersion: v1\nkind: List\nitems: {}\n', /expected a list/],
    ['apiVersion: v1\nkind: RouteList\nitems: text\n', /expected a list/],
    ['apiVersion: v1\nkind: List\nitems: [5]\n', /expected an object/],
    ['apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]\n', /has no kind/],
    [`${ROUTE}${ROUTE}`, /^x\.yaml:5: .*unique/],
    [`${ROUTE}---\nkind: {\n`, /^x\.yaml:7: /],
  ];
  for (const [text, words] of table) test(JSON.stringify(text), () => assert.match(refusal(text), words));

  test('JSON that is YAML only', () => {
    assert.equal(refusal('{\n"kind": "Service",\n}', 'a/b.json'), 'a/b.json:3: not JSON: unexpected "}"');
    assert.deepEqual(found('{"apiVersion": "v1",\n"kind": "Service",\n"metadata": {"name": "a"},\n}', 'b.yaml'), ['Service/a']);
    assert.equal(refusal('', 'b.json'), 'b.json:1: not JSON: the text ends too early');
  });

  test('a list within a list without end', () => {
    let list: object = { apiVersion: 'v1', kind: 'List', items: [] };
    for (let depth = 0; depth < 10; depth++) list = { apiVersion: 'v1', kind: 'List', items: [list] };
    assert.deepEqual(found(JSON.stringify(list), 'x.json'), []);
    const deeper = `${'{"apiVersion":"v1","kind":"List","items":['.repeat(100_000)}${']}'.repeat(100_000)}`;
    assert.match(refusal(deeper, 'x.json'), /^x\.json:1: lists within lists/);
  });

  test('whatever the text, objects or one line that names file and line', () => {
    const unit = fc.constantFrom(
      'kind: ',
      'List',
      'apiVersion: v1\n',
      'items:',
      '\n',
      '- ',
      '{',
      '}',
      '[',
      ']',
      '&a ',
      '*a',
      ': ',
      '"',
      "'",
      '---\n',
      '\t',
      '!!x ',
      '|',
      '\0',
      'é',
    );
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 15 }), fc.constantFrom('x.yaml', 'x.json'), (text, file) => {
        try {
          readManifests(text, file);
        } catch (error) {
          assert.ok(error instanceof HeadgateError, String(error));
          assert.match(error.message, /^x\.(yaml|json):\d+: [\x20-\x7e]+$/);
        }
      }),
      { numRuns: 5_000 },
    );
  });
});
