/** Our own keywords in schemas, about the content of texts. */

import { schemaKeywords } from '#acl';
import { isPlainMap, type JsonSchema } from './command-definition.ts';

/**
 * The annotations that there are: the text may begin with `-`; it may have several lines; it may have
 * what Salt interprets, such as `salt://`; the state file that it goes into writes it with
 * `yaml_encode` or `json`.
 */
const textAnnotations: ReadonlySet<string> = new Set([
  'x-allow-leading-dash',
  'x-allow-newlines',
  'x-allow-salt-syntax',
  'x-quoted-by-template',
]);

const { one, list, map } = schemaKeywords;

/** Returns a schema without the annotations, as JSON Schema knows it. */
export function withoutAnnotations(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutAnnotations);
  if (!isPlainMap(schema)) return schema;
  const known = Object.entries(schema).filter(([keyword]) => !textAnnotations.has(keyword));
  return Object.fromEntries(
    known.map(([keyword, value]) => {
      if (one.has(keyword) || list.has(keyword)) return [keyword, withoutAnnotations(value)];
      if (!map.has(keyword) || !isPlainMap(value)) return [keyword, value];
      const members = Object.entries(value).map(([key, it]) => [key, withoutAnnotations(it)]);
      return [keyword, Object.fromEntries(members)];
    }),
  );
}

/** What the schema of a text says of it. */
export function isAnnotated(schema: unknown, annotation: string): boolean {
  return isPlainMap(schema) && schema[annotation] === true;
}

/** The schema of a member; `undefined` where none says more than that it may be there. */
export function schemaOfMember(schema: unknown, key: string | number): unknown {
  if (!isPlainMap(schema)) return undefined;
  if (typeof key === 'number') return schema.items;
  const { properties, additionalProperties } = schema as JsonSchema;
  if (isPlainMap(properties) && Object.hasOwn(properties, key)) return properties[key];
  return additionalProperties;
}
