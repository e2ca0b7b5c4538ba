// `npm run bench [SUBJECT ...]`: sizes, memory and CPU time, printed and never asserted. Each number is the median of three or more; CPU time is user
// and system together, which other programs on the machine disturb little.

import { errorMessage } from '../../shared/error.ts';
import { tableLines } from '../../infra/cli/print.ts';
import { measureCompose } from './compose.ts';
import { measureIptables } from './iptables.ts';
import { measureRender } from './render.ts';
import { measureSidecar } from './sidecar.ts';
import { measureSizes } from './sizes.ts';
import { measureStart } from './start.ts';
import type { Row, Subject } from './subject.ts';

const SUBJECTS: Readonly<Record<string, Subject>> = {
  sizes: measureSizes,
  start: measureStart,
  render: measureRender,
  compose: measureCompose,
  iptables: measureIptables,
  sidecar: measureSidecar,
};

const named = process.argv.slice(2);
const unknown = named.find((name) => !Object.hasOwn(SUBJECTS, name));
if (unknown !== undefined) {
  process.stderr.write(`no subject ${unknown}; there are: ${Object.keys(SUBJECTS).join(' ')}\n`);
  process.exit(2);
}

const rows: Row[] = [];
for (const [name, measure] of Object.entries(SUBJECTS)) {
  if (named.length > 0 && !named.includes(name)) continue;
  try {
    rows.push(...(await measure((what) => progress(`${name}: ${what}`))));
  } catch (thrown) {
    rows.push({ what: name, value: 'failed', unit: errorMessage(thrown) });
    process.exitCode = 1;
  }
}
progress('');
for (const line of tableLines([['WHAT', 'MEDIAN', 'UNIT'], ...rows.map(({ what, value, unit }) => [what, value, unit])])) {
  process.stdout.write(`${line}\n`);
}

/** One line that is written over, on a terminal only. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
}
