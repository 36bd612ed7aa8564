/** JSON pointers [RFC 6901] to values in results, and to their schemas. */

import { isPlainMap } from '../commands/command-definition.ts';
import type { ParameterValue } from '../commands/parameters.ts';
import { schemaOfMember } from '../commands/text-annotations.ts';

const pointerForm = /^(?:\/(?:[^~/]|~[01])*)*$/;

const arrayIndexForm = /^(?:0|[1-9][0-9]{0,8})$/;

/** Parses a pointer into keys. Returns `undefined` if the pointer is invalid. */
export function parseJsonPointer(pointer: string): readonly string[] | undefined {
  if (!pointerForm.test(pointer)) return undefined;
  return pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Whether a schema describes the value at a path. */
export function isDescribedBySchema(schema: unknown, [key, ...rest]: readonly string[]): boolean {
  if (key === undefined) return isPlainMap(schema) || schema === true;
  const isItem = isPlainMap(schema) && schema.type === 'array' && arrayIndexForm.test(key);
  return isDescribedBySchema(schemaOfMember(schema, isItem ? Number(key) : key), rest);
}

/** Returns the value at a path, or `undefined` if there is none. */
export function valueAtPointer(
  value: ParameterValue | undefined,
  [key, ...rest]: readonly string[],
): ParameterValue | undefined {
  if (key === undefined || value === undefined) return value;
  if (Array.isArray(value))
    return valueAtPointer(arrayIndexForm.test(key) ? value[Number(key)] : undefined, rest);
  if (!isPlainMap(value) || !Object.hasOwn(value, key)) return undefined;
  return valueAtPointer(value[key] as ParameterValue, rest); // a member of JSON
}
