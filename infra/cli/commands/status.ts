// `headgate status`: what the head is, and what every node runs.

import { status as readStatus, type Status } from '../../../functions/operate.ts';
import type { FleetNode } from '../../../functions/fleet.ts';
import type { Head } from '../../../shared/head.ts';
import { type Role, ROLES } from '../../../shared/role.ts';
import { openExistingStore } from '../open.ts';
import { printJson, printLine, printTable } from '../print.ts';

export interface StatusFlags {
  readonly store?: string;
  readonly json?: boolean;
}

export async function status(flags: StatusFlags): Promise<void> {
  const found = await readStatus(await openExistingStore(flags.store));
  if (flags.json) return printJson(found);
  for (const line of headLines(found)) printLine(line);
  printLine('');
  if (found.nodes.length === 0) return printLine('No node has reported yet.');
  printTable([
    ['NODE', 'ROLE', 'VERSION', 'SEQUENCE', 'STATE', 'HOW', 'WHEN', 'TOOL', 'MESSAGE'],
    ...found.nodes.flatMap((node) => nodeRows(node, found.head)),
  ]);
}

function headLines({ store, head }: Status): string[] {
  if (head === null) return [`${store}: nothing was published yet.`];
  const moved = `sequence ${head.sequence}, moved ${head.time} by ${head.author}: ${head.reason}`;
  const lines = [`Head: version ${head.target.number}, ${moved}`];
  if (head.pin !== null) {
    const { version, roles, freeze, author, reason } = head.pin;
    lines.push(
      `Held: ${freeze ? 'exactly version' : 'the configuration of version'} ${version} (${roles.join(', ')}) by ${author}: ${reason}; until \`headgate resume\``,
    );
  }
  if (head.newest.number !== head.target.number) lines.push(`Waiting: version ${head.newest.number}`);
  return lines;
}

function nodeRows(node: FleetNode, head: Head | null): string[][] {
  const rows = ROLES.filter((role) => node.roles[role] !== undefined).map((role) => roleRow(node, role, head));
  return rows.length > 0 ? rows : [[node.node, '-', '-', '-', connection(node), '-', node.lastSeen, '-', 'nothing applied yet']];
}

/** What the role runs, and what became of the content that it should run. */
function roleRow(node: FleetNode, role: Role, head: Head | null): string[] {
  const last = node.roles[role];
  if (last === undefined) return [];
  const running = node.running[role];
  const verdict = last.outcome === 'applied' ? 'applied' : `${last.outcome} ${last.version}`;
  const behind = head !== null && last.version !== head.target.number ? ' behind' : '';
  const away = node.connectedTo === null ? ' away' : '';
  const how = last.how ?? last.stage ?? '-';
  const program = role === 'router' ? 'haproxy' : 'iptables';
  const version = node.tools[program];
  const tool = version === undefined ? '-' : `${program} ${version}`;
  return [
    node.node,
    role,
    `${running?.version ?? '-'}`,
    `${last.sequence}`,
    `${verdict}${behind}${away}`,
    how,
    last.time,
    tool,
    last.message,
  ];
}

function connection(node: FleetNode): string {
  return node.connectedTo === null ? 'away' : 'connected';
}
