// Certificates and keys made by openssl when a test needs them, in a folder that the caller removes.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Pair {
  readonly crt: string;
  readonly key: string;
}

export class Authority {
  readonly #folder = mkdtempSync(join(tmpdir(), `hg-${process.pid}-openssl-`));
  #count = 0;
  #issuer: { readonly crt: string; readonly key: string } | null = null;

  /** Self-signed; `args` choose the key and the digest. */
  selfSigned(...args: readonly string[]): Pair {
    const { crt, key } = this.#files();
    this.run('req', '-x509', '-nodes', '-subj', '/CN=www.example.com', '-keyout', key, '-out', crt, '-days', '30', ...args);
    return { crt: readFileSync(crt, 'utf8'), key: readFileSync(key, 'utf8') };
  }

  /** Signed by this authority's CA; `args` choose digest and dates. */
  signed(...args: readonly string[]): Pair {
    const ca = this.#ca();
    const { crt, key } = this.#files();
    this.run('req', '-new', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=www.example.com', '-keyout', key, '-out', `${crt}.csr`);
    this.run('x509', '-req', '-in', `${crt}.csr`, '-CA', ca.crt, '-CAkey', ca.key, '-CAcreateserial', '-out', crt, ...args);
    return { crt: readFileSync(crt, 'utf8'), key: readFileSync(key, 'utf8') };
  }

  /** The CA's certificate. */
  authority(): string {
    return readFileSync(this.#ca().crt, 'utf8');
  }

  /** What openssl prints, given text on its standard input. */
  convert(input: string, ...args: readonly string[]): string {
    return execFileSync('openssl', args, { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] });
  }

  run(...args: readonly string[]): void {
    execFileSync('openssl', args, { stdio: 'ignore' });
  }

  /** A path of the folder, for a file of the test's. */
  path(name: string): string {
    return join(this.#folder, name);
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #files(): { readonly crt: string; readonly key: string } {
    const name = this.path(String(this.#count++));
    return { crt: `${name}.crt`, key: `${name}.key` };
  }

  #ca(): { readonly crt: string; readonly key: string } {
    if (this.#issuer !== null) return this.#issuer;
    const { crt, key } = this.#files();
    this.run('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=Test CA', '-keyout', key, '-out', crt);
    this.#issuer = { crt, key };
    return this.#issuer;
  }
}

/** Why tests that need a program cannot run; false when they can. */
export function missing(program: string, ...args: readonly string[]): string | false {
  try {
    execFileSync(program, args, { stdio: 'ignore' });
    return false;
  } catch {
    return `${program} is not installed`;
  }
}
