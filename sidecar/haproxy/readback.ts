// What HAProxy says of itself: `show info`, `show proc` and `show servers state`, read into values.

/** The worker that serves now. */
export interface WorkerInfo {
  readonly pid: number;
  /** What its configuration calls itself: the generation that it loaded. Empty when HAProxy was started by somebody else. */
  readonly description: string;
  readonly version: string;
}

export interface MasterInfo {
  readonly pid: number;
  /** Reloads that failed since the last one that did not. */
  readonly failedReloads: number;
  /** Workers of before a reload that still finish connections. */
  readonly oldWorkers: number;
}

/** A server as it runs. */
export interface ServerReadback {
  readonly backend: string;
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly weight: number;
  /** Takes no new traffic by command. */
  readonly maintenance: boolean;
}

/** `show info`; null when it is something else. */
export function parseInfo(text: string): WorkerInfo | null {
  const pid = /^Pid: (\d+)$/m.exec(text)?.[1];
  if (pid === undefined) return null;
  return {
    pid: Number(pid),
    description: /^description: (.*)$/im.exec(text)?.[1]?.trim() ?? '',
    version: /^Version: (.*)$/m.exec(text)?.[1]?.trim() ?? '',
  };
}

/** `show proc` of the master's socket; null when it is something else. */
export function parseProcesses(text: string): MasterInfo | null {
  const master = /^(\d+)\s+master\s+\d+(?:\s+\[failed: (\d+)\])?/m.exec(text);
  if (master === null) return null;
  const [, old = ''] = text.split(/^# old workers$/m);
  const [oldWorkers = ''] = old.split(/^# /m);
  return {
    pid: Number(master[1]),
    failedReloads: Number(master[2] ?? 0),
    oldWorkers: [...oldWorkers.matchAll(/^\d+\s+worker\b/gm)].length,
  };
}

const FORCED_MAINTENANCE = 0x01;

/** `show servers state`, columns found by the names in its header. */
export function parseServersState(text: string): ServerReadback[] {
  const lines = text.split('\n');
  const header = lines.find((line) => line.startsWith('# '));
  const names = header?.slice(2).trim().split(' ') ?? [];
  const rows = lines.filter((line) => /^\d+ \S/.test(line)).map((line) => line.split(' '));
  return rows.map((row) => {
    const column = (name: string): string => row[names.indexOf(name)] ?? '';
    return {
      backend: column('be_name'),
      name: column('srv_name'),
      address: column('srv_addr'),
      port: Number(column('srv_port')),
      weight: Number(column('srv_uweight')),
      maintenance: (Number(column('srv_admin_state')) & FORCED_MAINTENANCE) !== 0,
    };
  });
}
