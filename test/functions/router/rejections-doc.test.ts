import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';

const root = new URL('../../../', import.meta.url);

test('the docs list every reason that the router gives', () => {
  const docs = readFileSync(new URL('infra/docs/rejections.md', root), 'utf8');
  const folder = new URL('functions/router/', root);
  const sources = readdirSync(folder).filter((name) => name.endsWith('.ts'));
  const reasons = sources.flatMap((name) =>
    [...readFileSync(new URL(name, folder), 'utf8').matchAll(/reason: '(\w+)'/g)].map(([, reason = '']) => reason),
  );
  assert.ok(reasons.length > 10);
  for (const reason of reasons) assert.ok(docs.includes(`\`${reason}\``), `${reason} is not in infra/docs/rejections.md`);
});
