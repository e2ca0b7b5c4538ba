// Map entries from one state to the next, as commands. Pure.

import { commandWord, NOTHING, type RuntimeCommand } from './runtime-command.ts';
import { LONGEST_COMMAND } from './runtime-socket.ts';

type Entries = ReadonlyMap<string, string>;

const LINES_TOGETHER = 100;

export interface MapPlan {
  readonly puts: readonly RuntimeCommand[];
  readonly removals: readonly RuntimeCommand[];
}

/** Commands for the maps that both states have. */
export function planMaps(from: ReadonlyMap<string, Entries>, to: ReadonlyMap<string, Entries>): MapPlan {
  const plans = [...to].map(([file, next]) => planMap(file, from.get(file) ?? next, next));
  return { puts: plans.flatMap(({ puts }) => puts), removals: plans.flatMap(({ removals }) => removals) };
}

function planMap(file: string, previous: Entries, next: Entries): MapPlan {
  const added = [...next].filter(([key]) => !previous.has(key));
  const changed = [...next].filter(([key, value]) => previous.has(key) && previous.get(key) !== value);
  const removed = [...previous.keys()].filter((key) => !next.has(key));
  return {
    puts: [
      ...addEntries(file, added),
      ...changed.map(([key, value]) => command(`set map ${file} ${commandWord(key)} ${commandWord(value)}`)),
    ],
    removals: removed.map((key) => command(`del map ${file} ${commandWord(key)}`)),
  };
}

/** Many entries in one payload, which takes them as they are: on the command line a backslash would be eaten. */
function addEntries(file: string, entries: readonly (readonly [string, string])[]): RuntimeCommand[] {
  const head = `add map ${file} <<\n`;
  const payloads: string[] = [];
  let lines: string[] = [];
  let size = head.length;
  for (const [key, value] of entries) {
    const line = `${key} ${value}\n`;
    if (lines.length === LINES_TOGETHER || size + Buffer.byteLength(line) > LONGEST_COMMAND) {
      payloads.push(lines.join(''));
      lines = [];
      size = head.length;
    }
    lines.push(line);
    size += Buffer.byteLength(line);
  }
  if (lines.length > 0) payloads.push(lines.join(''));
  return payloads.map((payload) => command(head + payload));
}

function command(text: string): RuntimeCommand {
  return { text, expect: NOTHING };
}
