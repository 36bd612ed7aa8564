/**
 * Dependencies in a Heat template. Resources depend on other resources, and on values that guests
 * write.
 */

import { findCycle } from '../data-spaces/roles.ts';

/** Resource of a template. Contains only the fields that can refer to other resources. */
interface TemplateResource {
  readonly type?: unknown;
  readonly properties?: unknown;
  readonly metadata?: unknown;
  readonly depends_on?: unknown;
}

export type TemplateResources = Readonly<Record<string, TemplateResource>>;

/** Maximum nesting of a value in a template, in levels. */
const maxDepth = 100;

/** Returns the names of the resources to which a value of a template refers. */
export function referencesOf(value: unknown, depth = 0): readonly string[] {
  if (typeof value !== 'object' || value === null || depth > maxDepth) return [];
  if (Array.isArray(value)) return value.flatMap((it) => referencesOf(it, depth + 1));
  const entries = Object.entries(value);
  const [first] = entries;
  if (first !== undefined && entries.length === 1) {
    const [name, argument] = first;
    if (name === 'get_resource' && typeof argument === 'string') return [argument];
    if (name === 'get_attr' && Array.isArray(argument) && typeof argument[0] === 'string') {
      return [argument[0], ...referencesOf(argument.slice(1), depth + 1)];
    }
  }
  return entries.flatMap(([, it]) => referencesOf(it, depth + 1));
}

/**
 * Returns, for each resource, the names of the resources on which it depends: those to which its
 * properties, metadata or `depends_on` refer. Heat creates these resources first.
 */
export function resourceDependencies(
  resources: TemplateResources,
): ReadonlyMap<string, readonly string[]> {
  return new Map(
    Object.entries(resources).map(([name, { properties, metadata, depends_on: after }]) => {
      const named = (Array.isArray(after) ? after : [after]).filter((it) => typeof it === 'string');
      const found = [...named, ...referencesOf(properties), ...referencesOf(metadata)];
      return [name, [...new Set(found)]];
    }),
  );
}

/**
 * Dependencies of a value that a guest writes: the resource of the guest's machine, and the values
 * that the guest reads first.
 */
interface GuestValueWaits {
  readonly resource: string;
  readonly needs: readonly string[];
}

/**
 * Dependencies between the resources and values of a template, among which
 * {@link findTemplateCycle} searches for a cycle.
 */
export interface TemplateWaits {
  readonly resources: ReadonlyMap<string, readonly string[]>;
  /** Values that Heat determines. Each is listed with the resources on which it depends. */
  readonly heatValues: ReadonlyMap<string, readonly string[]>;
  /** Values that Heat inserts into the user-data of each resource. */
  readonly heatReads: ReadonlyMap<string, readonly string[]>;
  readonly guestValues: ReadonlyMap<string, GuestValueWaits>;
}

/**
 * Returns a cycle of resources and values that depend on each other, or `undefined` if there is
 * none.
 */
export function findTemplateCycle(waits: TemplateWaits): readonly string[] | undefined {
  const { resources, heatValues, heatReads, guestValues } = waits;
  const resource = (name: string): string => `resource ${name}`;
  const edges = new Map<string, readonly string[]>();
  for (const [name, after] of resources) {
    edges.set(resource(name), [...after.map(resource), ...(heatReads.get(name) ?? [])]);
  }
  for (const [key, from] of heatValues) edges.set(key, from.map(resource));
  for (const [key, { resource: writer, needs }] of guestValues) {
    edges.set(key, [resource(writer), ...needs]);
  }
  return findCycle(edges);
}
