/** What waits for what in a Heat template: resources for resources, and for values of guests. */

import { findCycle } from '../data-spaces/roles.ts';

/** A resource of a template as far as its references are looked at. */
interface TemplateResource {
  readonly type?: unknown;
  readonly properties?: unknown;
  readonly metadata?: unknown;
  readonly depends_on?: unknown;
}

export type TemplateResources = Readonly<Record<string, TemplateResource>>;

/** Depth of a value in a template. */
const maxDepth = 100;

/** Names of the resources that a value of a template refers to. */
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

/** Of each resource, those that Heat creates before it: by properties, metadata and `depends_on`. */
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

/** A value that a guest writes: by which resource's machine, and after which values. */
interface GuestValueWaits {
  readonly resource: string;
  readonly needs: readonly string[];
}

/** What a cycle is looked for in. */
export interface TemplateWaits {
  readonly resources: ReadonlyMap<string, readonly string[]>;
  /** Values that Heat resolves, with the resources that they are made from. */
  readonly heatValues: ReadonlyMap<string, readonly string[]>;
  /** Of each resource, the values of Heat in its user-data. */
  readonly heatReads: ReadonlyMap<string, readonly string[]>;
  readonly guestValues: ReadonlyMap<string, GuestValueWaits>;
}

/** A chain of resources and values that wait for one another; `undefined`: there is none. */
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
