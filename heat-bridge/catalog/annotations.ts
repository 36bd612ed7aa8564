/** Our own keywords in the schemas of a catalog, which say what texts may have in them. */
import { schemaKeywords } from '../../acl/index.ts';
import { isMap, type JsonSchema } from './definition.ts';

/**
 * The annotations that there are: the text may begin with `-`; it may have several lines; the state
 * file that it goes into writes it with `yaml_encode` or `json`.
 */
const annotations: ReadonlySet<string> = new Set(['x-dash', 'x-lines', 'x-quoted']);

const { one, list, map } = schemaKeywords;

/** The schema as JSON Schema knows it. */
export function withoutAnnotations(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutAnnotations);
  if (!isMap(schema)) return schema;
  const known = Object.entries(schema).filter(([keyword]) => !annotations.has(keyword));
  return Object.fromEntries(
    known.map(([keyword, value]) => {
      if (one.has(keyword) || list.has(keyword)) return [keyword, withoutAnnotations(value)];
      if (!map.has(keyword) || !isMap(value)) return [keyword, value];
      const inner = Object.entries(value).map(([key, it]) => [key, withoutAnnotations(it)]);
      return [keyword, Object.fromEntries(inner)];
    }),
  );
}

/** What the schema of a text says of it. */
export function isAnnotated(schema: unknown, annotation: string): boolean {
  return isMap(schema) && schema[annotation] === true;
}

/** The schema of a member; `undefined` where none says more than that it may be there. */
export function schemaOfMember(schema: unknown, key: string | number): unknown {
  if (!isMap(schema)) return undefined;
  if (typeof key === 'number') return schema.items;
  const { properties, additionalProperties } = schema as JsonSchema;
  if (isMap(properties) && Object.hasOwn(properties, key)) return properties[key];
  return additionalProperties;
}
