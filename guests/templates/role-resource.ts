/** Resources of a template that have a role in their metadata. */

import Type, { type Static } from 'typebox';
import { type Document, isNode } from 'yaml';
import { compileSchema } from '#runtime';
import { keyOf, roleFields, roleNameSchema, TemplateWriteSchema } from '../data-spaces/roles.ts';
import { formError } from './template-document.ts';
import type { TemplateResources } from './template-graph.ts';

const strict = { additionalProperties: false };

type TemplateWrite = Readonly<Static<typeof TemplateWriteSchema>>;

const metadataCheck = compileSchema(
  Type.Object(
    {
      role: Type.Optional(roleNameSchema),
      reads: roleFields.reads,
      writes: Type.Optional(
        Type.Record(Type.String(), Type.Union([Type.Null(), TemplateWriteSchema])),
      ),
    },
    strict,
  ),
);
const writesCheck = compileSchema(roleFields.writes);

/** Resource of a template that has a role, with the values that the role reads and writes. */
export interface RoleResource {
  readonly name: string;
  readonly role: string;
  readonly reads: Readonly<Record<string, string>>;
  readonly writes: Readonly<Record<string, TemplateWrite>>;
}

export function roleResourceOf(
  name: string,
  resources: TemplateResources,
): RoleResource | undefined {
  const metadata = resources[name]?.metadata;
  const isThere = typeof metadata === 'object' && metadata !== null && 'saltbridge' in metadata;
  if (!isThere) return undefined;
  const place = `resources.${name}.metadata.saltbridge`;
  const [first] = metadataCheck.Errors(metadata.saltbridge);
  if (first !== undefined) {
    const problem = first.keyword === 'boolean' ? 'unknown field' : first.message;
    throw formError([`${place}${first.instancePath.replaceAll('/', '.')}: ${problem}`]);
  }
  const { role = name, reads = {}, writes = {} } = metadataCheck.Parse(metadata.saltbridge);
  if (!compileSchema(roleNameSchema).Check(role)) {
    throw formError([
      `${place}: set role, because the name of the resource, "${role}", is not a valid role name`,
    ]);
  }
  const all = Object.fromEntries(Object.entries(writes).map(([key, it]) => [key, it ?? {}]));
  if (!writesCheck.Check(Object.fromEntries(Object.keys(all).map((key) => [key, {}])))) {
    throw formError([
      `${place}.writes: names may contain only letters, digits, ".", "_", ":" and "-"`,
    ]);
  }
  return { name, role, reads, writes: all };
}

/**
 * Returns the YAML nodes of values that are Heat expressions, such as `get_param`. Heat evaluates
 * them when it creates the stack. A key has the form `ROLE/NAME`.
 */
export function expressionsOf(
  document: Document,
  found: readonly RoleResource[],
  heatValues: ReadonlyMap<string, unknown>,
): ReadonlyMap<string, unknown> {
  const writes = ['metadata', 'saltbridge', 'writes'];
  return new Map(
    found.flatMap(({ name, role, writes: own }) =>
      Object.keys(own).flatMap((it) => {
        const key = keyOf(role, it);
        if (!heatValues.has(key)) return [];
        const node = document.getIn(['resources', name, ...writes, it, 'value'], true);
        return isNode(node) ? [[key, node] as const] : [];
      }),
    ),
  );
}
