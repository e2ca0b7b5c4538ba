// Kills at chosen points of an application, without a hook in what is tested: programs that stand in front of the real ones (HAProxy's
// check, the reload script, iptables-restore) carry out an order on their way, once.

import { existsSync } from 'node:fs';
import { chmod, mkdir, rm, writeFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { SidecarStart } from './whole-system.ts';

/** `restore-1`: the first call of iptables-restore, IPv4 or IPv6, after the order was given. */
export type KillPoint =
  | 'before-check'
  | 'after-check'
  | 'before-signal'
  | 'after-signal'
  | `before-restore-${number}`
  | `after-restore-${number}`;

const RELOAD_SCRIPT = fileURLToPath(new URL('../../sidecar/haproxy/reload-haproxy', import.meta.url));

export class KillPoints {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Writes the programs into a new folder. */
  static async create(folder: string): Promise<KillPoints> {
    await mkdir(folder);
    const points = new KillPoints(folder);
    await points.#write('strike', STRIKE);
    await points.#write('haproxy', HAPROXY);
    await points.#write('reload', SIGNAL);
    for (const name of ['iptables-nft-restore', 'ip6tables-nft-restore']) await points.#write(name, restore(name));
    return points;
  }

  /** A sidecar that runs these programs. */
  get sidecar(): SidecarStart {
    return { haproxy: join(this.#folder, 'haproxy'), reloadScript: join(this.#folder, 'reload'), programs: this.#folder };
  }

  /** From now on the processes are killed at the first pass of the point. */
  async order(point: KillPoint, pids: readonly number[]): Promise<void> {
    for (const name of ['struck', 'restores']) await rm(join(this.#folder, name), { force: true });
    await writeFile(join(this.#folder, 'order.new'), `${point} ${pids.join(' ')}\n`);
    await rename(join(this.#folder, 'order.new'), join(this.#folder, 'order'));
  }

  get struck(): boolean {
    return existsSync(join(this.#folder, 'struck'));
  }

  /** iptables-restore refuses everything with these words; null: no longer. */
  async refuseRules(words: string | null): Promise<void> {
    if (words === null) await rm(join(this.#folder, 'refusal'));
    else await writeFile(join(this.#folder, 'refusal'), `${words}\n`);
  }

  async #write(name: string, body: string): Promise<void> {
    const path = join(this.#folder, name);
    await writeFile(path, `#!/bin/sh\nhere=\${0%/*}\n${body}`);
    await chmod(path, 0o755);
  }
}

/** Carries out the order when it names this point; exit 1 then. */
const STRIKE = `
[ -f "$here/order" ] || exit 0
read -r point pids < "$here/order"
[ "$point" = "$1" ] || exit 0
mv "$here/order" "$here/struck" || exit 0
kill -9 $pids
exit 1
`;

const HAPROXY = `
case " $* " in *" -c "*) ;; *) exec /usr/sbin/haproxy "$@" ;; esac
"$here/strike" before-check
/usr/sbin/haproxy "$@"
code=$?
"$here/strike" after-check
exit $code
`;

const SIGNAL = `
"$here/strike" before-signal
${RELOAD_SCRIPT}
code=$?
"$here/strike" after-signal
exit $code
`;

function restore(name: string): string {
  return `
if [ -f "$here/refusal" ] && [ "$1" != --version ]; then cat "$here/refusal" >&2; exit 2; fi
count=0
if [ -f "$here/order" ]; then
  [ ! -f "$here/restores" ] || read -r count < "$here/restores"
  count=$((count + 1))
  echo $count > "$here/restores"
fi
"$here/strike" before-restore-$count || exit 137
/usr/sbin/${name} "$@"
code=$?
"$here/strike" after-restore-$count
exit $code
`;
}
