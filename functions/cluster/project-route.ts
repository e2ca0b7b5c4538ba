// A Route (`route.openshift.io/v1`), projected.

import {
  type Fields,
  objects,
  optionalInteger,
  optionalObject,
  optionalText,
  requiredObject,
  requiredText,
  text,
  wrongType,
} from './fields.ts';
import { readMeta } from './metadata.ts';
import type { HeaderAction, Route, RouteTarget, RouteTls } from './objects.ts';

/** Throws WrongField. */
export function projectRoute(whole: Fields): Route {
  const spec = requiredObject(whole, 'spec');
  const port = optionalObject(spec, 'port');
  return {
    meta: readMeta(whole),
    host: optionalText(spec, 'host'),
    subdomain: optionalText(spec, 'subdomain'),
    path: optionalText(spec, 'path'),
    wildcardPolicy: optionalText(spec, 'wildcardPolicy'),
    to: readTarget(requiredObject(spec, 'to')),
    alternateBackends: objects(spec, 'alternateBackends').map(readTarget),
    targetPort: port === null ? null : readPortReference(port, 'targetPort'),
    tls: readTls(spec),
    headerActions: readHeaderActions(spec),
  };
}

/** A port by number or name; null when absent or 0. */
export function readPortReference(fields: Fields, key: string): string | number | null {
  const value = fields.values[key];
  if (typeof value === 'string') return optionalText(fields, key);
  if (typeof value !== 'number' && value !== undefined && value !== null) return wrongType(fields, key, 'a number or a name', value);
  return optionalInteger(fields, key, 0, 65_535) || null;
}

const INT32 = 2_147_483_647;

function readTarget(target: Fields): RouteTarget {
  return {
    kind: text(target, 'kind', 'Service'),
    name: requiredText(target, 'name'),
    weight: optionalInteger(target, 'weight', -INT32 - 1, INT32),
  };
}

function readTls(spec: Fields): RouteTls | null {
  const tls = optionalObject(spec, 'tls');
  if (tls === null) return null;
  const external = optionalObject(tls, 'externalCertificate');
  return {
    termination: text(tls, 'termination', ''),
    insecurePolicy: optionalText(tls, 'insecureEdgeTerminationPolicy'),
    certificate: optionalText(tls, 'certificate'),
    key: optionalText(tls, 'key'),
    caCertificate: optionalText(tls, 'caCertificate'),
    destinationCACertificate: optionalText(tls, 'destinationCACertificate'),
    externalCertificate: external === null ? null : optionalText(external, 'name'),
  };
}

function readHeaderActions(spec: Fields): HeaderAction[] {
  const headers = optionalObject(spec, 'httpHeaders');
  const actions = headers === null ? null : optionalObject(headers, 'actions');
  if (actions === null) return [];
  return (['request', 'response'] as const).flatMap((direction) =>
    objects(actions, direction).map((entry) => ({ direction, name: requiredText(entry, 'name'), action: readAction(entry) })),
  );
}

function readAction(entry: Fields): HeaderAction['action'] {
  const action = requiredObject(entry, 'action');
  const type = requiredText(action, 'type');
  if (type === 'Set') return { type, value: requiredText(requiredObject(action, 'set'), 'value') };
  return { type };
}
