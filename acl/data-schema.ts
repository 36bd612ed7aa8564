/**
 * Validates the data of signals with the operator's JSON Schemas, each compiled once. Unknown
 * keywords are rejected, because a misspelt keyword would check nothing. `pattern` uses the
 * linear-time regular expression engine, because the text comes from the minion [THREATS M-12].
 */

import { Compile } from 'typebox/schema';
import { isMap, nearestName, schemaErrors, WorkLimitExceeded } from '#runtime';
import { PolicyError } from './errors.ts';
import type { PolicySyntax, TextTest } from './policy-syntax.ts';
import { orPatternError, type RuleField } from './rule-patterns.ts';

/** Keywords of JSON Schema whose value is a schema, a list of schemas, or a map of them. */
export const schemaKeywords: Readonly<Record<'one' | 'list' | 'map', ReadonlySet<string>>> = {
  one: new Set([
    'items',
    'additionalProperties',
    'propertyNames',
    'contains',
    'not',
    'if',
    'then',
    'else',
  ]),
  list: new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']),
  map: new Set(['properties', '$defs', 'definitions']),
};

const jsonTypes: ReadonlySet<unknown> = new Set([
  'array',
  'boolean',
  'integer',
  'null',
  'number',
  'object',
  'string',
]);

const plainKeywords: Readonly<Record<string, (value: unknown) => boolean>> = {
  type: (value) => [value].flat().every((type) => jsonTypes.has(type)),
  enum: Array.isArray,
  const: () => true,
  required: isTexts,
  pattern: isText,
  $ref: (value) => isText(value) && value.startsWith('#'),
  minimum: isNumber,
  maximum: isNumber,
  exclusiveMinimum: isNumber,
  exclusiveMaximum: isNumber,
  multipleOf: (value) => isNumber(value) && value > 0,
  minLength: isCount,
  maxLength: isCount,
  minItems: isCount,
  maxItems: isCount,
  minContains: isCount,
  maxContains: isCount,
  minProperties: isCount,
  maxProperties: isCount,
  uniqueItems: isFlag,
  $schema: isText,
  title: isText,
  description: isText,
  default: () => true,
  examples: Array.isArray,
};

const maxDepth = 64;

/**
 * Maximum number of steps for comparing one value with the patterns of a schema. A step takes about
 * ten nanoseconds.
 */
const maxMatchingSteps = 4_000_000;

/** Maximum number of `enum` values that a message lists. */
const maxShownValues = 20;

/** Mismatch between data and a schema. */
export interface SchemaProblem {
  /** Path of the mismatch, as keys separated by `/`. Empty for the whole value. */
  readonly path: string;
  /**
   * Requirement that the data violates, for example `must be one of "a", "b"`. It does not quote
   * the data.
   */
  readonly expected: string;
}

const tooMuchMatching: SchemaProblem = {
  path: '',
  expected: 'must have fewer or shorter texts, because the schema compares them with patterns',
};

/** Compiles the patterns of a schema, and limits the work of comparing one value with them. */
class MatchingWork {
  readonly #compile: PolicySyntax['search'];
  #steps = 0;

  constructor({ search }: Pick<PolicySyntax, 'search'>) {
    this.#compile = search;
  }

  search(pattern: string): TextTest {
    return this.#compile(pattern, (steps) => {
      this.#steps += steps;
      if (this.#steps <= maxMatchingSteps) return;
      throw new WorkLimitExceeded('the patterns of a schema', maxMatchingSteps, 'steps');
    });
  }

  /** Returns the result of comparing one value, or `undefined` if the work exceeds the limit. */
  limited<T>(compare: () => T): T | undefined {
    this.#steps = 0;
    try {
      return compare();
    } catch (error) {
      if (error instanceof WorkLimitExceeded) return undefined;
      throw error;
    }
  }
}

/**
 * Compiles a check of data by a JSON Schema. Values that JSON cannot represent (bytes, numbers
 * beyond 2^53) never match.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
export function compileDataSchema(
  schema: unknown,
  syntax: Pick<PolicySyntax, 'search'>,
  place: RuleField,
): (data: unknown) => boolean {
  const work = new MatchingWork(syntax);
  const check = Compile(readSchema(schema, work, place, 0));
  return (data) => {
    const plain = isJson(data, maxDepth) ? data : withScalars(data, maxDepth, plainFloat);
    return isJson(plain, maxDepth) && work.limited(() => check.Check(plain)) === true;
  };
}

/**
 * Returns a function that checks data by a JSON Schema. The function returns the first mismatch, or
 * `undefined` if the data match. Integers beyond 2^53 are compared as the nearest float, like the
 * numbers in the schema.
 * @param search - compiles a regular expression that may match anywhere in a text
 * @throws PolicyError ERR_POLICY_PATTERN, which names the invalid keyword of the schema
 */
export function compileJsonSchema(
  schema: unknown,
  search: PolicySyntax['search'],
): (data: unknown) => SchemaProblem | undefined {
  const work = new MatchingWork({ search });
  const compiled = readSchema(schema, work, { rule: 'schema', field: '' }, 0);
  const check = Compile(compiled);
  return (data) => {
    const plain = withScalars(data, maxDepth, (it) =>
      typeof it === 'bigint' ? Number(it) : plainFloat(it),
    );
    if (!isJson(plain, maxDepth)) return { path: '', expected: 'must be a JSON value' };
    const isValid = work.limited(() => check.Check(plain));
    if (isValid === true) return undefined;
    const errors =
      isValid === undefined ? undefined : work.limited(() => schemaErrors(check, compiled, plain));
    if (errors === undefined) return tooMuchMatching;
    // An unknown property is often a misspelt one, so report it rather than the missing correct
    // one.
    const first = errors.find(({ keyword }) => keyword === 'boolean') ?? errors[0];
    if (first === undefined) return { path: '', expected: 'must match the schema' };
    return { path: first.instancePath.slice(1), expected: describeRule(first) };
  };
}

/** Returns a description of the schema rule that the data violates. */
function describeRule({
  keyword,
  message,
  params,
}: {
  readonly keyword: string;
  readonly message: string;
  readonly params: object;
}): string {
  // TypeBox reports an unknown property as a mismatch with the schema `false`.
  if (keyword === 'boolean') return 'is not known';
  if (keyword === 'enum' && 'allowedValues' in params && Array.isArray(params.allowedValues)) {
    const shown = params.allowedValues.slice(0, maxShownValues).map((it) => JSON.stringify(it));
    const more = params.allowedValues.length > shown.length ? ', …' : '';
    return `must be one of ${shown.join(', ')}${more}`;
  }
  if (keyword === 'const' && 'allowedValue' in params) {
    return `must be ${JSON.stringify(params.allowedValue)}`;
  }
  return message;
}

function readSchema(
  schema: unknown,
  syntax: MatchingWork,
  { rule, field }: RuleField,
  depth: number,
): Record<string, unknown> | boolean {
  if (typeof schema === 'boolean') return schema;
  if (!isMap(schema) || depth > maxDepth)
    throw schemaError(
      { rule, field },
      `the JSON Schema must be a map or a boolean, and must not be nested deeper than ${maxDepth} levels`,
    );
  const read: Record<string, unknown> = {};
  for (const [keyword, value] of Object.entries(schema)) {
    const place = { rule, field: `${field}.${keyword}` };
    const inner = (one: unknown, name: string): unknown =>
      readSchema(one, syntax, { rule, field: `${place.field}${name}` }, depth + 1);
    if (schemaKeywords.one.has(keyword)) read[keyword] = inner(value, '');
    else if (schemaKeywords.list.has(keyword)) {
      read[keyword] = listOf(value, place).map((one, index) => inner(one, `.${index}`));
    } else if (schemaKeywords.map.has(keyword)) {
      const entries = Object.entries(mapOf(value, place));
      read[keyword] = Object.fromEntries(
        entries.map(([name, one]) => [name, inner(one, `.${name}`)]),
      );
    } else if (keyword === 'pattern' && isText(value)) {
      const test = orPatternError(place, () => syntax.search(toWholeEnd(value)));
      read['~refine'] = [textRefinement(value, test)];
    } else if (isPlainKeyword(keyword, value)) read[keyword] = value;
    else throw schemaError(place, describeKeyword(keyword));
  }
  return read;
}

function describeKeyword(keyword: string): string {
  if (keyword === 'pattern' || Object.hasOwn(plainKeywords, keyword)) {
    return 'the value of this JSON Schema keyword has the wrong type';
  }
  const { one, list, map } = schemaKeywords;
  const known = [...one, ...list, ...map, ...Object.keys(plainKeywords), 'pattern'];
  const meant = nearestName(keyword, known);
  return `unknown keyword${meant === undefined ? '' : `; did you mean ${meant}?`}`;
}

function isPlainKeyword(keyword: string, value: unknown): boolean {
  return Object.hasOwn(plainKeywords, keyword) && plainKeywords[keyword]?.(value) === true;
}

function textRefinement(
  pattern: string,
  test: TextTest,
): {
  readonly check: (value: unknown) => boolean;
  readonly error: () => string;
} {
  return {
    check: (value) => typeof value !== 'string' || test(value),
    error: () => `must match the pattern ${pattern}`,
  };
}

/**
 * Replaces `$` with `\Z`, the end of the text. In Python, `$` also matches before a final line
 * break. In JSON Schema, it does not.
 */
function toWholeEnd(pattern: string): string {
  return pattern.replace(/\\.|\[(?:\\.|[^\]\\])*\\?\]?|\$/gs, (part) =>
    part === '$' ? '\\Z' : part,
  );
}

/**
 * Returns the number that a float object contains, or any other value unchanged. In event data,
 * floats without a fraction, such as 1.0, are objects.
 */
function plainFloat(value: unknown): unknown {
  const number: unknown = Object(value).valueOf();
  return typeof number === 'number' ? number : value;
}

/**
 * Copies a JSON value. Replaces every text, number and other scalar in it by the result of
 * `replace`.
 * @param depth - maximum nesting to copy; deeper values are not replaced
 */
function withScalars(
  value: unknown,
  depth: number,
  replace: (scalar: unknown) => unknown,
): unknown {
  if (depth === 0) return value;
  if (Array.isArray(value)) return value.map((item) => withScalars(item, depth - 1, replace));
  if (!isMap(value)) return replace(value);
  // Create the copy without a prototype: a schema would treat inherited properties as the object's
  // own.
  const copy: Record<string, unknown> = Object.create(null);
  for (const [key, item] of Object.entries(value)) {
    copy[key] = withScalars(item, depth - 1, replace);
  }
  return copy;
}

function isJson(value: unknown, depth: number): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (depth === 0 || typeof value !== 'object') return false;
  if (Array.isArray(value)) return value.every((item) => isJson(item, depth - 1));
  return isMap(value) && Object.values(value).every((item) => isJson(item, depth - 1));
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every(isText);
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number';
}

function isCount(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 0;
}

function isFlag(value: unknown): boolean {
  return typeof value === 'boolean';
}

function listOf(value: unknown, place: RuleField): readonly unknown[] {
  if (Array.isArray(value) && value.length > 0) return value;
  throw schemaError(
    place,
    'the value of this JSON Schema keyword must be a list of at least one schema',
  );
}

function mapOf(value: unknown, place: RuleField): Record<string, unknown> {
  if (isMap(value)) return value;
  throw schemaError(
    place,
    'the value of this JSON Schema keyword must be a map whose values are schemas',
  );
}

function schemaError(place: RuleField, problem: string): PolicyError {
  return new PolicyError('ERR_POLICY_PATTERN', place, problem);
}
