// A version's content before it has a number: paths and their bytes.

/** Paths are relative, with `/`, made only of `[A-Za-z0-9._:-]` segments; never `.` or `..`. */
export type Files = ReadonlyMap<string, string | Uint8Array>;

const SEGMENT = /^[A-Za-z0-9_:-][A-Za-z0-9._:-]*$/;

/** True when a path of a version is safe to join to a folder: no empty, hidden, `.` or `..` segment, at most 512 characters. */
export function isSafePath(path: string): boolean {
  return path.length <= 512 && path.split('/').every((segment) => SEGMENT.test(segment));
}
