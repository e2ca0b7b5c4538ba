// Cluster state, gathered from the projections of all objects. The order in which they were listed leaves no trace.

import { isDeepStrictEqual } from 'node:util';
import { canonicalJson, compareText } from '../../shared/json.ts';
import { type Rejection, sortRejections } from '../../shared/rejection.ts';
import { mergeEndpoints, withoutSlices } from './merge-endpoints.ts';
import type { NamespacedName } from './metadata.ts';
import type { ClusterNode, ClusterState, Namespace, Route, Secret, Service } from './objects.ts';
import type { ServicePart } from './project-endpoints.ts';
import type { ProjectedObject, Projection } from './project.ts';

/**
 * One cluster state from everything that was listed. An object that stands twice counts once when both copies say the
 * same. When they differ none counts: either would be a guess that depends on the order of files.
 */
export function clusterState(projections: Iterable<Projection>): ClusterState {
  const { kept, rejected } = keepOnce(projections);
  const objects = sortByKind(kept);
  const counted = new Set(withoutSlices(objects.slices, objects.endpoints));
  const rejections = kept
    .filter(({ projected }) => projected.kind !== 'Endpoints' || counted.has(projected.object))
    .flatMap((projection) => projection.rejections);
  return {
    routes: objects.routes.sort((a, b) => compareNames(a.meta, b.meta)),
    services: objects.services.sort((a, b) => compareNames(a.meta, b.meta)),
    nodes: objects.nodes.sort((a, b) => compareText(a.name, b.name)),
    namespaces: objects.namespaces.sort((a, b) => compareText(a.name, b.name)),
    secrets: objects.secrets.sort(compareNames),
    endpoints: mergeEndpoints(objects.slices, objects.endpoints),
    rejections: sortRejections([...rejections, ...rejected]),
  };
}

type Kept = Projection & { readonly projected: ProjectedObject };

function keepOnce(projections: Iterable<Projection>): { readonly kept: readonly Kept[]; readonly rejected: Iterable<Rejection> } {
  const kept = new Map<string, Kept>();
  const rejected = new Map<string, Rejection>();
  const differing = new Map<string, Kept>();
  for (const projection of projections) {
    if (!isKept(projection)) {
      for (const rejection of projection.rejections) rejected.set(canonicalJson(rejection), rejection);
      continue;
    }
    const key = `${projection.kind}/${projection.namespace}/${projection.name}`;
    const copy = kept.get(key);
    if (copy === undefined) kept.set(key, projection);
    else if (!isDeepStrictEqual(copy.projected, projection.projected)) differing.set(key, projection);
  }
  for (const [key, projection] of differing) {
    kept.delete(key);
    rejected.set(key, duplicate(projection));
  }
  return { kept: [...kept.values()], rejected: rejected.values() };
}

function isKept(projection: Projection): projection is Kept {
  return projection.projected !== null;
}

function duplicate({ kind, namespace, name }: Projection): Rejection {
  const message = 'stands more than once with different content, so none of the copies counts; keep one';
  return { kind, namespace, name, scope: 'object', field: '', reason: 'DuplicateObject', message };
}

interface ObjectsByKind {
  readonly routes: Route[];
  readonly services: Service[];
  readonly slices: ServicePart[];
  readonly endpoints: ServicePart[];
  readonly nodes: ClusterNode[];
  readonly namespaces: Namespace[];
  readonly secrets: Secret[];
}

function sortByKind(kept: readonly Kept[]): ObjectsByKind {
  const objects: ObjectsByKind = { routes: [], services: [], slices: [], endpoints: [], nodes: [], namespaces: [], secrets: [] };
  for (const { projected } of kept) {
    if (projected.kind === 'Route') objects.routes.push(projected.object);
    else if (projected.kind === 'Service') objects.services.push(projected.object);
    else if (projected.kind === 'EndpointSlice') objects.slices.push(projected.object);
    else if (projected.kind === 'Endpoints') objects.endpoints.push(projected.object);
    else if (projected.kind === 'Node') objects.nodes.push(projected.object);
    else if (projected.kind === 'Namespace') objects.namespaces.push(projected.object);
    else objects.secrets.push(projected.object);
  }
  return objects;
}

function compareNames(a: NamespacedName, b: NamespacedName): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}
