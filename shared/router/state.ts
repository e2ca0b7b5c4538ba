// Router state as nodes keep it: for each backend its servers and the digest of everything about it that cannot change
// at run time. This is what a plan compares; the text of a configuration is only its printed form.

import type { Digest } from '../digest.ts';

export interface ServerTls {
  /** Path of the CA file, relative to the working directory `router/`; null: the server is not verified. */
  readonly caFile: string | null;
  /** Name that the server's certificate must carry; null: not checked. */
  readonly verifyHost: string | null;
}

/** One server line: the same for the configuration and for `add server` (see server-line.ts). */
export interface Server {
  /** Unique within its backend: `pod:<pod>:<service>:<port name>:<address>:<port>`. */
  readonly name: string;
  /** Unique within its backend, 1..2^31-1. Without one, added servers share hash-ring points. */
  readonly id: number;
  readonly address: string;
  readonly port: number;
  /** 0..256; 0 drains. */
  readonly weight: number;
  /** Milliseconds between health checks; null: not checked. */
  readonly checkInterval: number | null;
  readonly maxConnections: number | null;
  readonly http2: boolean;
  readonly tls: ServerTls | null;
}

export interface BackendState {
  /** Name as in the configuration, e.g. `be_edge_http:ns:name`. */
  readonly backend: string;
  /** Digest of the stanza without its server lines: when it differs, only a reload gets there. */
  readonly fixed: Digest;
  /** Whether cookies stick clients to servers (then `enable dynamic-cookie backend` follows every `add server`). */
  readonly cookies: boolean;
  readonly servers: readonly Server[];
}
