// Host names of routes: what is one, and how they lie within each other. Always by whole labels, never by text alone.

const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
const DNS_LABEL = new RegExp(`^${LABEL}$`);
const DNS_SUBDOMAIN = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`);

/** One DNS-1123 label: lowercase letters, digits and `-`, at most 63 characters. */
export function isDnsLabel(text: string): boolean {
  return text.length <= 63 && DNS_LABEL.test(text);
}

/** Labels joined by dots, at most 253 characters: a host as `spec.host` may hold it. */
export function isDnsSubdomain(text: string): boolean {
  return text.length <= 253 && DNS_SUBDOMAIN.test(text);
}

/** The host without its first label; empty when it has only one. */
export function parentDomain(host: string): string {
  const dot = host.indexOf('.');
  return dot === -1 ? '' : host.slice(dot + 1);
}

/** A domain of the options as hosts are compared with it: `.Example.com` and `example.com.` mean `example.com`. */
export function canonicalDomain(domain: string): string {
  return domain.toLowerCase().replace(/^\./, '').replace(/\.$/, '');
}

/** Whether the host is the domain or lies below it: `a.example.com` is within `example.com`, `badexample.com` is not. */
export function isWithinDomain(host: string, domain: string): boolean {
  return host === domain || host.endsWith(`.${domain}`);
}
