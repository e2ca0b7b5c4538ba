// The kernel's `route_localnet`, without which a node port does not answer on 127.0.0.1.

import { errorMessage, HeadgateError } from '../../shared/error.ts';
import type { RunProgram } from '../run-program.ts';

const KEY = 'net.ipv4.conf.all.route_localnet';

/**
 * Turned on only after the rules that guard 127/8 are in, off before they go; and off only when it was turned on here, for others may need
 * it. Both throw HeadgateError `sysctl-failed` (stage `apply`).
 */
export class RouteLocalnet {
  readonly #run: RunProgram;
  #on = false;

  constructor(run: RunProgram) {
    this.#run = run;
  }

  async turnOn(): Promise<void> {
    if (this.#on || (await this.#sysctl(['-n', KEY])) === '1') return;
    await this.#sysctl(['-w', `${KEY}=1`]);
    this.#on = true;
  }

  async turnOff(): Promise<void> {
    if (this.#on) await this.#sysctl(['-w', `${KEY}=0`]);
    this.#on = false;
  }

  async #sysctl(args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.#run(['sysctl', ...args]);
    if (code === 0) return stdout.trim();
    throw new HeadgateError('sysctl-failed', 'apply', `sysctl ${args.join(' ')} failed (exit ${code}): ${errorMessage(stderr)}`);
  }
}
