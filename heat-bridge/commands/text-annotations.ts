/** Annotations: custom keywords in JSON Schemas that describe the content of texts. */

import { schemaKeywords } from '#acl';
import { isPlainMap, type JsonSchema } from './command-definition.ts';

/**
 * Names of the annotations. `x-allow-leading-dash` permits a leading `-`, `x-allow-newlines`
 * several lines, and `x-allow-salt-syntax` text that Salt interprets, such as `salt://`.
 * `x-quoted-by-template` declares that the state file writes the text with `yaml_encode` or `json`.
 */
const textAnnotations: ReadonlySet<string> = new Set([
  'x-allow-leading-dash',
  'x-allow-newlines',
  'x-allow-salt-syntax',
  'x-quoted-by-template',
]);

const { one, list, map } = schemaKeywords;

/** Returns a schema without annotations, which is standard JSON Schema. */
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

/** Whether a schema has this annotation. */
export function isAnnotated(schema: unknown, annotation: string): boolean {
  return isPlainMap(schema) && schema[annotation] === true;
}

/**
 * Returns the part of the schema of a map or list that describes one of its members. Returns
 * `undefined` if there is no such part.
 */
export function schemaOfMember(schema: unknown, key: string | number): unknown {
  if (!isPlainMap(schema)) return undefined;
  if (typeof key === 'number') return schema.items;
  const { properties, additionalProperties } = schema as JsonSchema;
  if (isPlainMap(properties) && Object.hasOwn(properties, key)) return properties[key];
  return additionalProperties;
}
