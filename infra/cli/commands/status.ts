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
    ['NODE', 'ROLE', 'VERSION', 'SEQUENCE', 'STATE', 'HOW', 'WHEN', 'MESSAGE'],
    ...found.nodes.flatMap((node) => nodeRows(node, found.head)),
  ]);
}

function headLines({ store, head }: Status): string[] {
  if (head === null) return [`${store}: nothing was published yet.`];
  const moved = `sequence ${head.sequence}, moved ${head.time} by ${head.author}: ${head.reason}`;
  const lines = [`Head: version ${head.target.number}, ${moved}`];
  if (head.pin !== null) {
    const { version, roles, freeze } = head.pin;
    lines.push(
      `Held: ${freeze ? 'exactly version' : 'the configuration of version'} ${version} (${roles.join(', ')}), until \`headgate resume\``,
    );
  }
  if (head.newest.number !== head.target.number) lines.push(`Waiting: version ${head.newest.number}`);
  return lines;
}

function nodeRows(node: FleetNode, head: Head | null): string[][] {
  const rows = ROLES.filter((role) => node.roles[role] !== undefined).map((role) => roleRow(node, role, head));
  return rows.length > 0 ? rows : [[node.node, '-', '-', '-', connection(node), '-', node.lastSeen, 'nothing applied yet']];
}

function roleRow(node: FleetNode, role: Role, head: Head | null): string[] {
  const result = node.roles[role];
  if (result === undefined) return [];
  const behind = head !== null && result.version !== head.target.number ? ' behind' : '';
  const state = `${result.outcome}${behind}${node.connectedTo === null ? ' away' : ''}`;
  return [
    node.node,
    role,
    `${result.version}`,
    `${result.sequence}`,
    state,
    result.how ?? result.stage ?? '-',
    result.time,
    result.message,
  ];
}

function connection(node: FleetNode): string {
  return node.connectedTo === null ? 'away' : 'connected';
}
