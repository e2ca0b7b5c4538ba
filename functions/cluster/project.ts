// Projection: one object as JSON in, the fields that we use out, typed. Works on one object at a time, so that a folder
// of manifests and a page of an API server's list are read alike. A field of the wrong type is a rejection of its object.

import type { Rejection } from '../../shared/rejection.ts';
import { type Fields, WrongField, legible, wholeObject } from './fields.ts';
import type { ClusterNode, Namespace, Route, Secret, Service } from './objects.ts';
import { type LeftOut, type ServicePart, projectEndpoints, projectSlice } from './project-endpoints.ts';
import { projectNamespace, projectNode } from './project-node.ts';
import { projectRoute } from './project-route.ts';
import { projectSecret } from './project-secret.ts';
import { projectService } from './project-service.ts';

/** The kinds that we read, and the API that each belongs to. */
export const API_VERSIONS = {
  Route: 'route.openshift.io/v1',
  Service: 'v1',
  EndpointSlice: 'discovery.k8s.io/v1',
  Endpoints: 'v1',
  Node: 'v1',
  Namespace: 'v1',
  Secret: 'v1',
} as const;

export type Kind = keyof typeof API_VERSIONS;

/** An object of each kind, projected. */
export type ProjectedObject =
  | { readonly kind: 'Route'; readonly object: Route }
  | { readonly kind: 'Service'; readonly object: Service }
  | { readonly kind: 'EndpointSlice'; readonly object: ServicePart }
  | { readonly kind: 'Endpoints'; readonly object: ServicePart }
  | { readonly kind: 'Node'; readonly object: ClusterNode }
  | { readonly kind: 'Namespace'; readonly object: Namespace }
  | { readonly kind: 'Secret'; readonly object: Secret };

/** What became of one object. */
export interface Projection {
  readonly kind: Kind;
  /** Empty for kinds without one. */
  readonly namespace: string;
  readonly name: string;
  /** null: rejected, and `rejections` says why. */
  readonly projected: ProjectedObject | null;
  readonly rejections: readonly Rejection[];
}

/** The kind that we know under this name in this API; null for any other object of the cluster. */
export function kindOf(apiVersion: string, kind: string): Kind | null {
  return isKind(kind) && API_VERSIONS[kind] === apiVersion ? kind : null;
}

/** Projects one object, whose own `kind` and `apiVersion` may be missing as they are in lists; null when it says nothing to us. */
export function project(kind: Kind, raw: unknown): Projection | null {
  const whole = wholeObject(raw);
  const identity = { kind, ...identityOf(kind, whole) };
  const rejected = (field: string, reason: string, message: string): Projection => ({
    ...identity,
    projected: null,
    rejections: [{ ...identity, scope: 'object', field, reason, message }],
  });
  if (whole === null) return rejected('', 'WrongType', 'expected an object');
  const leftOut: LeftOut[] = [];
  try {
    const projected = projectKind(kind, whole, leftOut);
    if (projected === null) return null;
    return { ...identity, projected, rejections: leftOut.map((part) => ({ ...identity, scope: 'setting', ...part })) };
  } catch (thrown) {
    if (thrown instanceof WrongField) return rejected(thrown.field, thrown.reason, thrown.message);
    throw thrown;
  }
}

function projectKind(kind: Kind, whole: Fields, leftOut: LeftOut[]): ProjectedObject | null {
  switch (kind) {
    case 'Route':
      return { kind, object: projectRoute(whole) };
    case 'Service':
      return { kind, object: projectService(whole) };
    case 'Endpoints':
      return { kind, object: projectEndpoints(whole, leftOut) };
    case 'Node':
      return { kind, object: projectNode(whole) };
    case 'Namespace':
      return { kind, object: projectNamespace(whole) };
    case 'EndpointSlice': {
      const object = projectSlice(whole, leftOut);
      return object === null ? null : { kind, object };
    }
    default: {
      const object = projectSecret(whole);
      return object === null ? null : { kind, object };
    }
  }
}

/** Whose rejection it is, as far as that can be told, whatever else is wrong. */
function identityOf(kind: Kind, whole: Fields | null): { readonly namespace: string; readonly name: string } {
  const metadata = wholeObject(whole?.values['metadata'])?.values ?? {};
  const { namespace, name } = metadata;
  const clusterWide = kind === 'Node' || kind === 'Namespace';
  return {
    namespace: clusterWide ? '' : typeof namespace === 'string' && namespace !== '' ? legible(namespace) : 'default',
    name: typeof name === 'string' ? legible(name) : '',
  };
}

function isKind(kind: string): kind is Kind {
  return Object.hasOwn(API_VERSIONS, kind);
}
