// The kernel's `route_localnet`, without which a node port does not answer on 127.0.0.1.

import type { RunProgram } from '../run-program.ts';
import { readSysctl, writeSysctl } from './sysctl.ts';

const NAME = 'net/ipv4/conf/all/route_localnet';

/** Turns it off whoever turned it on, for when the guard goes. Throws as `writeSysctl` does. */
export async function turnOffRouteLocalnet(run: RunProgram): Promise<void> {
  if ((await readSysctl(run, NAME)) === '1') await writeSysctl(run, NAME, '0');
}

/**
 * Turned on only after the rules that guard 127/8 are in, off before they go; and off only when it was turned on here, for others may need
 * it. Both throw as `writeSysctl` does.
 */
export class RouteLocalnet {
  readonly #run: RunProgram;
  #on = false;

  constructor(run: RunProgram) {
    this.#run = run;
  }

  async turnOn(): Promise<void> {
    if (this.#on || (await readSysctl(this.#run, NAME)) === '1') return;
    await writeSysctl(this.#run, NAME, '1');
    this.#on = true;
  }

  async turnOff(): Promise<void> {
    if (this.#on) await writeSysctl(this.#run, NAME, '0');
    this.#on = false;
  }
}
