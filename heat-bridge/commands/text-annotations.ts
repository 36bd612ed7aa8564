/** Custom schema keywords for the content of text. */

import { schemaKeywords } from '#acl';
import { isPlainMap, type JsonSchema } from './command-definition.ts';

/**
 * Names of the annotations. They permit a leading `-`, permit several lines, and permit text that
 * Salt interprets, such as `salt://`. The last one declares that the state file writes the text
 * with `yaml_encode` or `json`.
 */
const textAnnotations: ReadonlySet<string> = new Set([
  'x-allow-leading-dash',
  'x-allow-newlines',
  'x-allow-salt-syntax',
  'x-quoted-by-template',
]);

const { one, list, map } = schemaKeywords;

/** Returns a schema without the annotations, as standard JSON Schema. */
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

/** Whether a schema has an annotation. */
export function isAnnotated(schema: unknown, annotation: string): boolean {
  return isPlainMap(schema) && schema[annotation] === true;
}

/** Returns the schema of a member, or `undefined` if it is unrestricted. */
export function schemaOfMember(schema: unknown, key: string | number): unknown {
  if (!isPlainMap(schema)) return undefined;
  if (typeof key === 'number') return schema.items;
  const { properties, additionalProperties } = schema as JsonSchema;
  if (isPlainMap(properties) && Object.hasOwn(properties, key)) return properties[key];
  return additionalProperties;
}
