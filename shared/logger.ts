// The one logger: structured lines on standard error, quiet unless asked.

import { type Logger, pino } from 'pino';

export type { Logger };

/** `HEADGATE_LOG` names the lowest level printed: trace, debug, info, warn (default), error, silent. */
export function createLogger(level: string, bindings: Readonly<Record<string, string>> = {}): Logger {
  return pino(
    { level, base: bindings, timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (label) => ({ level: label }) } },
    pino.destination({ fd: 2, sync: true }),
  );
}
