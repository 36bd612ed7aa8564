/**
 * Describes each mistake in a value that does not match a schema: its path, and the problem in
 * plain words.
 */

import type { TSchema } from 'typebox';
import Type from 'typebox';
import { Check } from 'typebox/schema';
import { nearestName } from './nearest-name.ts';
import { isMap } from './plain-map.ts';

/**
 * Path of a mistake inside the value: names of members and indices of lists. Empty if the whole
 * value is wrong.
 */
export type ValuePath = readonly (string | number)[];

/** A place where a value does not match the schema. */
export interface SchemaMistake {
  readonly path: ValuePath;
  /**
   * Description of the found value and the expected value. It quotes only numbers from the found
   * value, because other values may be secret.
   */
  readonly problem: string;
  /** Whether the problem is that the schema does not know the last name in `path`. */
  readonly isUnknown: boolean;
  /** Known name that is similar to the unknown name. */
  readonly meant?: string | undefined;
}

/** Returns the mistakes in a value. Empty if the value matches the schema. */
export function schemaMistakes(schema: TSchema, value: unknown): readonly SchemaMistake[] {
  return mistakesAt(schema, value, []);
}

/** Returns the type of a value in words. */
export function nameOfType(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (value instanceof Date) return 'a date';
  if (typeof value === 'string') return value === '' ? 'empty text' : 'a text';
  if (typeof value === 'number') return Number.isInteger(value) ? 'a whole number' : 'a number';
  if (typeof value === 'boolean') return 'true or false';
  return typeof value === 'object' ? 'a map' : `a value of type ${typeof value}`;
}

/** Returns a hint for an unknown name: the most similar known name, or all known names. */
export function unknownName(name: string, known: readonly string[]): string {
  const meant = nearestName(name, known);
  if (meant !== undefined) return `did you mean ${meant}?`;
  return `known names: ${known.join(', ')}`;
}

function mistakesAt(schema: TSchema, value: unknown, path: ValuePath): readonly SchemaMistake[] {
  if (Check(schema, value)) return [];
  const inner = mistakesWithin(schema, value, path);
  return inner.length > 0 ? inner : [mistake(path, refusal(schema, value))];
}

function mistake(path: ValuePath, problem: string): SchemaMistake {
  return { path, problem, isUnknown: false };
}

/**
 * Returns the mistakes inside a list or map. Returns an empty list if the value itself has the
 * wrong type.
 */
function mistakesWithin(
  schema: TSchema,
  value: unknown,
  path: ValuePath,
): readonly SchemaMistake[] {
  if (Type.IsUnion(schema)) {
    const alike = schema.anyOf.filter((branch) => isAlike(branch, value));
    const [only, ...others] = alike;
    return only === undefined || others.length > 0 ? [] : mistakesAt(only, value, path);
  }
  if (Type.IsArray(schema) && Array.isArray(value)) {
    return value.flatMap((item, index) => mistakesAt(schema.items, item, [...path, index]));
  }
  if (!isMap(value)) return [];
  if (Type.IsRecord(schema)) {
    return Object.entries(value).flatMap(([name, member]) => {
      const own = Object.entries(schema.patternProperties).find(([pattern]) =>
        new RegExp(pattern, 'u').test(name),
      );
      if (own !== undefined) return mistakesAt(own[1], member, [...path, name]);
      const [pattern = ''] = Object.keys(schema.patternProperties);
      return [mistake([...path, name], `invalid name, expected a name that matches ${pattern}`)];
    });
  }
  return Type.IsObject(schema) ? mistakesOfMembers(schema, value, path) : [];
}

/** A schema with named members. */
interface MapSchema {
  readonly properties: Readonly<Record<string, TSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: unknown;
}

function mistakesOfMembers(
  { properties, required = [], additionalProperties }: MapSchema,
  value: Readonly<Record<string, unknown>>,
  path: ValuePath,
): readonly SchemaMistake[] {
  const known = Object.keys(properties);
  const meantNames = new Set<string>();
  const found = Object.entries(value).flatMap(([name, member]): readonly SchemaMistake[] => {
    const place = [...path, name];
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (own !== undefined) return mistakesAt(own, member, place);
    if (additionalProperties !== false) return [];
    const nearest = nearestName(name, known);
    const meant = nearest === undefined || Object.hasOwn(value, nearest) ? undefined : nearest;
    if (meant !== undefined) meantNames.add(meant);
    const problem = `there is no such key; ${unknownName(name, known)}`;
    const schema = meant === undefined ? undefined : properties[meant];
    const more = schema === undefined ? [] : mistakesAt(schema, member, place);
    return [{ path: place, problem, isUnknown: true, meant }, ...more];
  });
  const missing = required.filter((name) => !Object.hasOwn(value, name) && !meantNames.has(name));
  if (missing.length === 0) return found;
  return [...found, mistake(path, `${missing.join(' and ')} must be set`)];
}

/**
 * Whether a value has the basic type of a schema: list, map, text or number. If a value must match
 * one of several schemas (a union), {@link mistakesWithin} reports mistakes inside the value only
 * if exactly one of them has this type.
 */
function isAlike(schema: TSchema, value: unknown): boolean {
  if (Array.isArray(value)) return Type.IsArray(schema);
  if (isMap(value)) return Type.IsObject(schema) || Type.IsRecord(schema);
  if (typeof value === 'string') return Type.IsString(schema);
  return typeof value === 'number' && (Type.IsInteger(schema) || Type.IsNumber(schema));
}

/** Returns the reason why the whole value does not match the schema. */
function refusal(schema: TSchema, value: unknown): string {
  const expected = `expected ${describeSchema(schema)}`;
  const bound = typeof value === 'number' ? brokenBound(schema, value) : undefined;
  if (bound !== undefined) return `${value} is ${bound}, ${expected}`;
  const words = wordsOf(schema);
  const meant = typeof value === 'string' ? nearestName(value, words) : undefined;
  const proposal = meant === undefined ? '' : `; did you mean ${meant}?`;
  return `found ${nameOfType(value)}, ${expected}${proposal}`;
}

/**
 * Returns the bound that a number violates. The number may be quoted, because numbers are not
 * secret.
 */
function brokenBound(schema: TSchema, value: number): string | undefined {
  if (!Type.IsInteger(schema) && !Type.IsNumber(schema)) return undefined;
  const { minimum, maximum, exclusiveMinimum } = boundsOf(schema);
  if (value > (maximum ?? Infinity)) return `over ${maximum}`;
  if (value < (minimum ?? -Infinity)) return `under ${minimum}`;
  if (value <= (exclusiveMinimum ?? -Infinity)) return `not over ${exclusiveMinimum}`;
  return Type.IsInteger(schema) && !Number.isInteger(value) ? 'not a whole number' : undefined;
}

/** Returns the literal values that a schema permits, as texts. */
function wordsOf(schema: TSchema): readonly string[] {
  if (Type.IsLiteral(schema)) return [String(schema.const)];
  return Type.IsUnion(schema) ? schema.anyOf.flatMap(wordsOf) : [];
}

/**
 * Describes the values that a schema accepts. Uses the `description` of the schema if it has one.
 */
function describeSchema(schema: TSchema): string {
  if ('description' in schema && typeof schema.description === 'string') return schema.description;
  const words = wordsOf(schema);
  if (Type.IsUnion(schema)) {
    if (words.length === schema.anyOf.length) return `one of ${words.join(', ')}`;
    return [...new Set(schema.anyOf.map(describeSchema))].join(', or ');
  }
  if (words.length > 0) return words.join();
  if (Type.IsInteger(schema)) return `a whole number${describeBounds(schema)}`;
  if (Type.IsNumber(schema)) return `a number${describeBounds(schema)}`;
  if (Type.IsBoolean(schema)) return 'true or false';
  if (Type.IsString(schema)) return describeText(schema);
  const { minItems, maxItems, minProperties, maxProperties } = boundsOf(schema);
  if (Type.IsArray(schema)) return `a list${describeCount(minItems, maxItems)}`;
  if (Type.IsRecord(schema) || Type.IsObject(schema)) {
    return `a map${describeCount(minProperties, maxProperties)}`;
  }
  return Type.IsNull(schema) ? 'nothing' : 'another value';
}

/** Returns the keywords of a schema that have a number as their value. */
function boundsOf(schema: TSchema): Readonly<Partial<Record<string, number>>> {
  const entries = Object.entries(schema).filter(([, bound]) => typeof bound === 'number');
  return Object.fromEntries(entries);
}

function describeBounds(schema: TSchema): string {
  const { minimum, maximum, exclusiveMinimum } = boundsOf(schema);
  if (exclusiveMinimum !== undefined) {
    return ` over ${exclusiveMinimum}${maximum === undefined ? '' : `, up to ${maximum}`}`;
  }
  if (minimum === undefined) return maximum === undefined ? '' : ` up to ${maximum}`;
  return maximum === undefined ? `, ${minimum} or more` : ` from ${minimum} to ${maximum}`;
}

function describeText(schema: TSchema): string {
  const { minLength = 0, maxLength = Infinity } = boundsOf(schema);
  if ('pattern' in schema && typeof schema.pattern === 'string')
    return `text that matches ${schema.pattern}`;
  if (maxLength >= 4096) return minLength > 1 ? `text of ${minLength} characters or more` : 'text';
  return `text of ${minLength} to ${maxLength} characters`;
}

function describeCount(minimum = 0, maximum = Infinity): string {
  if (minimum === 0 && maximum === Infinity) return '';
  if (minimum === maximum) return ` of ${minimum}`;
  return maximum === Infinity ? ` of ${minimum} or more` : ` of ${minimum} to ${maximum}`;
}
