// Commands of the admin socket: how their words are written, and which reply means that they worked.

export interface RuntimeCommand {
  /** A payload, if any, included. */
  readonly text: string;
  /** A reply that does not match leads to a reload. */
  readonly expect: RegExp;
}

/** Most commands answer nothing when all went well. */
export const NOTHING = /^$/;

/** A server as commands name it: `backend/server`. */
export type ServerPath = string;

export function serverPath(backend: string, server: string): ServerPath {
  return `${commandWord(backend)}/${commandWord(server)}`;
}

/** A word of a command. On the command line a backslash keeps the next character, a space ends a word and a semicolon a command. */
export function commandWord(text: string): string {
  return text.replaceAll(/[\\ ;]/g, '\\$&');
}
