/** Our own keywords in the schemas of a catalog, which say what texts may have in them. */
import { isMap, type JsonSchema } from './definition.ts';

const inMaps: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions']);
const inSchemas: ReadonlySet<string> = new Set([
  'items',
  'additionalProperties',
  'propertyNames',
  'contains',
  'not',
  'if',
  'then',
  'else',
  'allOf',
  'anyOf',
  'oneOf',
  'prefixItems',
]);

/**
 * The annotations that there are: the text may begin with `-`; it may have several lines; the state
 * file that it goes into writes it with `yaml_encode` or `json`.
 */
const annotations: ReadonlySet<string> = new Set(['x-dash', 'x-lines', 'x-quoted']);

/** The schema as JSON Schema knows it. */
export function withoutAnnotations(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutAnnotations);
  if (!isMap(schema)) return schema;
  const known = Object.entries(schema).filter(([keyword]) => !annotations.has(keyword));
  return Object.fromEntries(
    known.map(([keyword, value]) => {
      if (inSchemas.has(keyword)) return [keyword, withoutAnnotations(value)];
      if (!inMaps.has(keyword) || !isMap(value)) return [keyword, value];
      const inner = Object.entries(value).map(([key, one]) => [key, withoutAnnotations(one)]);
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
