/** JSON pointers [RFC 6901]: places in what a minion returned, and in the schema of it. */
import { schemaOfMember } from '../catalog/annotations.ts';
import { isMap, type JsonValue } from '../catalog/definition.ts';

const form = /^(?:\/(?:[^~/]|~[01])*)*$/;
const index = /^(?:0|[1-9][0-9]{0,8})$/;

/** The keys of a pointer; `undefined`: it is none. */
export function keysOf(pointer: string): readonly string[] | undefined {
  if (!form.test(pointer)) return undefined;
  return pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Whether a schema describes what is at a place. */
export function isDescribed(schema: unknown, [key, ...rest]: readonly string[]): boolean {
  if (key === undefined) return isMap(schema) || schema === true;
  const isItem = isMap(schema) && schema.type === 'array' && index.test(key);
  return isDescribed(schemaOfMember(schema, isItem ? Number(key) : key), rest);
}

/** What is at a place; `undefined`: nothing. */
export function valueAt(
  value: JsonValue | undefined,
  [key, ...rest]: readonly string[],
): JsonValue | undefined {
  if (key === undefined || value === undefined) return value;
  if (Array.isArray(value)) return valueAt(index.test(key) ? value[Number(key)] : undefined, rest);
  if (!isMap(value) || !Object.hasOwn(value, key)) return undefined;
  return valueAt(value[key] as JsonValue, rest); // a member of JSON
}
