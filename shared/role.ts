// The two things that a node can do. Roles are applied, confirmed and reverted each on its own.

export type Role = 'router' | 'service-proxy';

export const ROLES: readonly Role[] = ['router', 'service-proxy'];

/** One value for each role. */
export type PerRole<T> = { readonly [role in Role]: T };

export function isRole(text: string): text is Role {
  return text === 'router' || text === 'service-proxy';
}

/** Which role runs the file at this path of a version; null for files that never leave the store (for people and for compute). */
export function roleOfPath(path: string): Role | null {
  if (path.startsWith('router/')) return 'router';
  if (path.startsWith('iptables/')) return 'service-proxy';
  return null;
}
