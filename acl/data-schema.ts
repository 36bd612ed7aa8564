/**
 * JSON Schema over what minions say with a signal: the operator's own schemas, each compiled once.
 * A keyword that is misspelt would check nothing, so only known ones are taken; `pattern` is run by
 * the engine that cannot explode, because the text comes from the minion [THREATS M-12].
 */

import { Compile } from 'typebox/schema';
import { nearestName } from '#runtime';
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

/** Values of an `enum` that a refusal lists. */
const maxShownValues = 20;

/** What keeps data from fitting a schema. */
export interface SchemaProblem {
  /** Where, as keys with `/` between them; empty: the whole. */
  readonly path: string;
  /** What was expected; nothing of the data is in it. */
  readonly expected: string;
}

/**
 * A check of data by a JSON Schema. What JSON cannot say (bytes, numbers beyond 2^53) fits none.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
export function compileDataSchema(
  schema: unknown,
  syntax: Pick<PolicySyntax, 'search'>,
  place: RuleField,
): (data: unknown) => boolean {
  const check = Compile(readSchema(schema, syntax, place, 0));
  return (data) => isJson(data, maxDepth) && check.Check(data);
}

/**
 * The same, that says what is wrong; `undefined`: nothing. An integer beyond 2^53 is compared with
 * bounds as the nearest float, as JSON Schema's own numbers are.
 * @param search - reads a regular expression that may match anywhere in a text
 * @throws PolicyError ERR_POLICY_PATTERN, with the keyword
 */
export function compileJsonSchema(
  schema: unknown,
  search: PolicySyntax['search'],
): (data: unknown) => SchemaProblem | undefined {
  const check = Compile(readSchema(schema, { search }, { rule: 'schema', field: '' }, 0));
  return (data) => {
    const plain = withoutBigints(data, maxDepth);
    if (!isJson(plain, maxDepth)) return { path: '', expected: 'must be what JSON can say' };
    if (check.Check(plain)) return undefined;
    const [, errors] = check.Errors(plain);
    // A misspelt name says more than that the right one is missing.
    const first = errors.find(({ keyword }) => keyword === 'boolean') ?? errors[0];
    if (first === undefined) return { path: '', expected: 'must fit the schema' };
    return { path: first.instancePath.slice(1), expected: describeRule(first) };
  };
}

/** The rule of the schema that the data break, in words. */
function describeRule({
  keyword,
  message,
  params,
}: {
  readonly keyword: string;
  readonly message: string;
  readonly params: object;
}): string {
  // What no schema describes is measured against the schema `false`.
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
  syntax: Pick<PolicySyntax, 'search'>,
  { rule, field }: RuleField,
  depth: number,
): Record<string, unknown> | boolean {
  if (typeof schema === 'boolean') return schema;
  if (!isMap(schema) || depth > maxDepth)
    throw schemaError({ rule, field }, 'expected a JSON Schema');
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
    return 'its value is of another type than this keyword has';
  }
  const { one, list, map } = schemaKeywords;
  const known = [...one, ...list, ...map, ...Object.keys(plainKeywords), 'pattern'];
  const meant = nearestName(keyword, known);
  return `this keyword is not known${meant === undefined ? '' : `; did you mean ${meant}?`}`;
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

/** `$` means the very end in JSON Schema; in Python also the place before a last line break. */
function toWholeEnd(pattern: string): string {
  return pattern.replace(/\\.|\[(?:\\.|[^\]\\])*\]|\$/gs, (part) => (part === '$' ? '\\Z' : part));
}

function withoutBigints(value: unknown, depth: number): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (depth === 0 || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => withoutBigints(item, depth - 1));
  if (!isMap(value)) return value;
  // Without a prototype: a schema takes what an object inherits for what is in it.
  const copy: Record<string, unknown> = Object.create(null);
  for (const [key, item] of Object.entries(value)) copy[key] = withoutBigints(item, depth - 1);
  return copy;
}

function isJson(value: unknown, depth: number): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (depth === 0 || typeof value !== 'object') return false;
  if (Array.isArray(value)) return value.every((item) => isJson(item, depth - 1));
  return isMap(value) && Object.values(value).every((item) => isJson(item, depth - 1));
}

function isMap(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  // That of a class inherits from Object.prototype, in its turn.
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
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
  throw schemaError(place, 'expected a list of schemas');
}

function mapOf(value: unknown, place: RuleField): Record<string, unknown> {
  if (isMap(value)) return value;
  throw schemaError(place, 'expected a map of schemas');
}

function schemaError(place: RuleField, problem: string): PolicyError {
  return new PolicyError('ERR_POLICY_PATTERN', place, problem);
}
