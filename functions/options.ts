// The options: nested YAML, every key typed, with the field's defaults. An unknown key or a bad value is an error that
// names file, key and what was expected. Reading the files that options name is `load-options.ts`; this file is pure.
//
// An option is listed here only when it does something.

import { z } from 'zod';
import { parseAddress, parseCidr } from '../shared/address.ts';
import { HeadgateError } from '../shared/error.ts';
import { parseDuration } from '../shared/duration.ts';
import { optionProblems } from './option-problems.ts';
import { canonicalDomain, isDnsSubdomain } from './router/hosts.ts';
import { parseLabelSelector } from './router/label-selector.ts';

/** A duration: `5s`, `300ms`, `1h`; a bare number is milliseconds, as in HAProxy. Becomes milliseconds. */
const duration = (fallback: string) =>
  z
    .union([z.string(), z.number()], 'expected a duration such as 5s, 300ms or 1h')
    .default(fallback)
    .transform((text, context) => {
      const ms = parseDuration(String(text));
      if (ms !== null) return ms;
      context.addIssue({ code: 'custom', message: 'expected a duration such as 5s, 300ms or 1h', params: { harmless: true } });
      return z.NEVER;
    });

const port = (fallback: number) => z.number().int().min(1).max(65535).default(fallback);

/** Text that a function reads, and what it becomes; null from it is an error, which repeats the text when that is harmless. */
const readText = (expected: string, read: (text: string) => string | null, harmless = true) =>
  z.string().transform((text, context) => {
    const value = read(text);
    if (value !== null) return value;
    context.addIssue({ code: 'custom', message: `expected ${expected}`, params: { harmless } });
    return z.NEVER;
  });

/** A CIDR, canonical once read. */
const cidr = readText('a CIDR such as 10.0.0.0/8', (text) => parseCidr(text.trim())?.text ?? null);

/** A domain, canonical once read. */
const domain = readText('a domain such as apps.example.com', (text) => {
  const canonical = canonicalDomain(text.trim());
  return isDnsSubdomain(canonical) ? canonical : null;
});

const bindAddress = readText('an IP address, or * for all of them', (text) => (text === '*' ? text : (parseAddress(text)?.text ?? null)));

const labelSelector = readText('a label selector such as app=web,tier in (a,b),!canary', (text) =>
  parseLabelSelector(text) === null ? null : text.trim(),
);

const secretName = readText('namespace/name of a Secret', (text) => {
  const [namespace = '', name = '', ...rest] = text.split('/');
  return rest.length === 0 && isDnsSubdomain(namespace) && isDnsSubdomain(name) ? text : null;
});

/** HAProxy's userlist takes one word, and basic authentication ends a user's name at a colon. */
const userName = readText('letters, digits and . _ @ + -', (text) => (/^[A-Za-z0-9._@+-]{1,128}$/.test(text) ? text : null), false);

const statsSchema = z.strictObject({ user: userName, passwordFile: z.string() });

const PORTS = { httpPort: 80, httpsPort: 443, statsPort: 1936 } as const;

const routerFields = z.strictObject({
  httpPort: port(PORTS.httpPort),
  httpsPort: port(PORTS.httpsPort),
  statsPort: port(PORTS.statsPort),
  /** `*`: every address, IPv4 and IPv6. */
  bindAddress: bindAddress.default('*'),
  allowWildcardRoutes: z.boolean().default(false),
  disableNamespaceOwnershipCheck: z.boolean().default(false),
  allowedDomains: z.array(domain).default([]),
  deniedDomains: z.array(domain).default([]),
  /** Kubernetes label selectors; empty: everything. */
  namespaceSelector: labelSelector.default(''),
  routeSelector: labelSelector.default(''),
  /** Completes `spec.subdomain`. */
  domain: domain.nullable().default(null),
  /** A PEM file, a folder with tls.crt and tls.key, inline PEM, or `secret: namespace/name`. */
  defaultCertificate: z
    .union([z.string(), z.strictObject({ secret: secretName })], 'expected a path, PEM, or secret: namespace/name')
    .nullable()
    .default(null),
  /** A PEM file or inline PEM. */
  defaultDestinationCA: z.string().nullable().default(null),
  stats: statsSchema.nullable().default(null),
  /** A folder whose .hbs files replace ours by name. */
  templates: z.string().nullable().default(null),
  /** False: every change reloads. */
  dynamic: z.boolean().default(true),
  allowLoopbackEndpoints: z.boolean().default(false),
  maxConnections: z.number().int().positive().default(50_000),
  threads: z.number().int().positive().max(64).nullable().default(null),
  bufferSize: z.number().int().min(16_384).default(32_768),
  maxRewriteSize: z.number().int().min(1_024).default(8_192),
  hardStopAfter: duration('1h'),
  connectTimeout: duration('5s'),
  clientTimeout: duration('30s'),
  clientFinTimeout: duration('1s'),
  serverTimeout: duration('30s'),
  serverFinTimeout: duration('1s'),
  httpRequestTimeout: duration('10s'),
  httpKeepAliveTimeout: duration('300s'),
  tunnelTimeout: duration('1h'),
  inspectDelay: duration('5s'),
  healthCheckInterval: duration('5000ms'),
  balance: z.enum(['roundrobin', 'leastconn', 'source', 'random']).default('random'),
  tcpBalance: z.enum(['roundrobin', 'leastconn', 'source', 'random']).default('source'),
  forwardedHeaders: z.enum(['append', 'replace', 'if-none', 'never']).default('append'),
  disableHttp2: z.boolean().default(false),
  // What follows has no effect yet (see WITHOUT_EFFECT). It is checked all the same, so that a file which is accepted stays so.
  /** A Service, `namespace/name`. */
  peersService: z
    .string()
    .regex(/^[^/\s]+\/[^/\s]+$/, 'namespace/name')
    .nullable()
    .default(null),
  blueprints: z
    .strictObject({
      namespace: z.string(),
      labels: z.record(z.string(), z.string()).default({}),
      poolSize: z.number().int().min(0).default(10),
      profiles: z.array(z.enum(['http', 'edge', 'passthrough'])).default(['http', 'edge', 'passthrough']),
    })
    .nullable()
    .default(null),
  maxDynamicServers: z.number().int().min(0).default(5),
  dynamicServerPrefix: z
    .string()
    .regex(/^[A-Za-z0-9_.-]+$/, 'letters, digits, _, . and -')
    .default('_dynamic-pod'),
});

/** Router options that are accepted and do nothing yet; whoever writes one is told. */
const WITHOUT_EFFECT = ['peersService', 'blueprints', 'maxDynamicServers', 'dynamicServerPrefix'] as const;

/** What listens needs a port of its own: HAProxy would share one between two frontends, and each would get some of the connections. */
const routerSchema = routerFields.superRefine((router, context) => {
  for (const [key, other] of PORT_PAIRS) {
    if (router[key] !== router[other]) continue;
    // Of the two, the one that was written.
    const [named, kept] = router[key] === PORTS[key] ? [other, key] : [key, other];
    context.addIssue({ code: 'custom', path: [named], message: `expected a port other than router.${kept}'s` });
  }
});

const PORT_PAIRS = [
  ['httpsPort', 'httpPort'],
  ['statsPort', 'httpPort'],
  ['statsPort', 'httpsPort'],
] as const;

const iptablesSchema = z.strictObject({
  /** null: the Nodes' `spec.podCIDRs`; empty: unknown. */
  clusterCIDRs: z.array(cidr).nullable().default(null),
  masqueradeAll: z.boolean().default(false),
  /** Empty: every local address. */
  nodePortAddresses: z.array(cidr).default([]),
  localhostNodePorts: z.boolean().default(false),
});

const schema = z.strictObject({
  router: routerSchema.prefault({}),
  iptables: iptablesSchema.prefault({}),
});

/** Options as written in the file, checked, defaults filled in; paths not yet read. Durations in ms. */
export type WrittenOptions = z.output<typeof schema>;

/** Router options that the output depends on. No paths, no secrets: those are in `LoadedFiles`. */
export type RouterOptions = Omit<
  WrittenOptions['router'],
  'defaultCertificate' | 'defaultDestinationCA' | 'stats' | 'templates' | (typeof WITHOUT_EFFECT)[number]
> & {
  /** The user of the stats page; its password is the secret `stats-password`. null: no authentication, loopback only. */
  readonly statsUser: string | null;
  /** Sources of custom templates by name (TEMPLATE_NAMES), replacing ours. */
  readonly templates: Readonly<Record<string, string>>;
};
export type IptablesOptions = WrittenOptions['iptables'];

/** What the files named by the options hold. Contains secrets. */
export interface LoadedFiles {
  /** Certificate, key and chain as found; null: none given. `secret`: `namespace/name`. */
  readonly defaultCertificate: { readonly pem: string } | { readonly secret: string } | null;
  readonly defaultDestinationCA: string | null;
  readonly statsPassword: string | null;
}

/** Everything that compute takes besides the cluster. */
export interface Options {
  readonly router: RouterOptions;
  readonly iptables: IptablesOptions;
  readonly files: LoadedFiles;
  /** Full keys that were written and have no effect yet. */
  readonly withoutEffect: readonly string[];
}

/** The templates that `router.templates` can replace. */
export const TEMPLATE_NAMES = ['base', 'backend'] as const;

const KNOWN_KEYS: readonly string[] = [
  'router',
  'iptables',
  ...Object.keys(routerSchema.shape).map((key) => `router.${key}`),
  'router.defaultCertificate.secret',
  ...Object.keys(statsSchema.shape).map((key) => `router.stats.${key}`),
  ...Object.keys(iptablesSchema.shape).map((key) => `iptables.${key}`),
];

/**
 * Checks parsed YAML against the schema. Nothing at all, or a section without keys, stands for the defaults.
 * @param file named in the error
 * @throws HeadgateError `bad-options` (stage `options`) naming file, key, what was expected and what was found
 */
export function parseOptions(value: unknown, file: string): WrittenOptions {
  const written = withoutEmptySections(value ?? {});
  const result = schema.safeParse(written);
  if (result.success) return result.data;
  const problems = optionProblems(result.error.issues, written, KNOWN_KEYS);
  throw new HeadgateError('bad-options', 'options', `${file}: ${problems.join('; ')}`);
}

/** The full keys of parsed YAML that have no effect yet. */
export function keysWithoutEffect(value: unknown): string[] {
  const router = typeof value === 'object' && value !== null && 'router' in value ? value.router : null;
  if (typeof router !== 'object' || router === null) return [];
  return WITHOUT_EFFECT.filter((key) => Object.hasOwn(router, key)).map((key) => `router.${key}`);
}

/** A section whose keys are all commented out reads as null. */
function withoutEmptySections(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, section]) => section !== null));
}
