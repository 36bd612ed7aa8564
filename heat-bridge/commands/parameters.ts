/** Parameters of commands and plans: schemas, what texts may hold, mapping to keyword arguments. */

import { compileJsonSchema, PolicyError, schemaKeywords } from '#acl';
import { isPlainYamlText } from '#master';
import { compileSearchPattern, type WireMap, type WireValue } from '#minion-protocol';
import { type JsonValue, nearestName } from '#runtime';
import { BridgeError, CatalogError } from '../errors.ts';
import {
  type ArgumentSource,
  catalogError,
  isPlainMap,
  type JsonSchema,
  keywordForm,
} from './command-definition.ts';

// Our own keywords in schemas, about the content of texts.

/**
 * The annotations that there are: the text may begin with `-`; it may have several lines; the state
 * file that it goes into writes it with `yaml_encode` or `json`.
 */
const textAnnotations: ReadonlySet<string> = new Set([
  'x-allow-leading-dash',
  'x-allow-newlines',
  'x-quoted-by-template',
]);

const { one, list, map } = schemaKeywords;

/** Returns a schema without the annotations, as JSON Schema knows it. */
function withoutAnnotations(schema: unknown): unknown {
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
function isAnnotated(schema: unknown, annotation: string): boolean {
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

/** What they may be. */
export interface CompiledParameters {
  readonly schema: JsonSchema;
  readonly names: readonly string[];
  /**
   * The parameters with their defaults.
   * @param more - looks at what the schema has nothing against
   * @throws BridgeError ERR_COMMAND_PARAMETERS, with the place and what was expected
   */
  check(given: unknown, more?: (parameters: unknown) => TextProblem | undefined): Parameters;
}

/** What is not described is not taken. @throws BridgeError ERR_CATALOG */
export function compileParameters(
  name: string,
  given: JsonSchema = { type: 'object', properties: {} },
): CompiledParameters {
  const schema = closeSchema(name, given);
  const names = Object.keys(propertiesOf(schema));
  const problemOf = compileSchema(name, 'parameters', schema);
  return {
    schema,
    names,
    check: (values, more) => {
      const parameters = isPlainMap(values) ? withDefaults(values, schema) : values;
      const problem = problemOf(parameters) ?? more?.(parameters);
      if (problem !== undefined) throw parameterError(name, problem, schema);
      return parameters as Parameters; // what the schema describes is JSON
    },
  };
}

/** @throws BridgeError ERR_CATALOG */
export function compileSchema(
  name: string,
  field: string,
  schema: JsonSchema,
): ReturnType<typeof compileJsonSchema> {
  try {
    const plain = withoutAnnotations(schema);
    return compileJsonSchema(plain, compileSearchPattern);
  } catch (cause) {
    if (!(cause instanceof PolicyError)) throw cause;
    const mistake = { path: [field, ...cause.path], problem: cause.problem };
    throw new CatalogError(name, [mistake], { cause });
  }
}

function closeSchema(name: string, schema: JsonSchema): JsonSchema {
  const { type, properties = {}, additionalProperties = false } = schema;
  if (type !== 'object' || !isPlainMap(properties)) {
    throw catalogError(name, 'parameters', 'expected the schema of an object: type: object');
  }
  if (additionalProperties !== false) {
    throw catalogError(
      name,
      'parameters.additionalProperties',
      'expected false, which it is by itself',
    );
  }
  const bad = Object.keys(properties).find((key) => !keywordForm.test(key));
  if (bad !== undefined) {
    throw catalogError(name, 'parameters', 'a parameter is named by letters, digits and _');
  }
  // protection: extra-parameters
  return { ...schema, properties, additionalProperties };
}

function propertiesOf({ properties }: JsonSchema): Readonly<Record<string, unknown>> {
  return isPlainMap(properties) ? properties : {};
}

/** The names of parameters are the catalog's own; nothing of the caller's is told. */
function parameterError(
  name: string,
  { path, expected }: TextProblem,
  schema: JsonSchema,
): BridgeError {
  const names = Object.keys(propertiesOf(schema));
  const [first = ''] = path.split('/');
  const known = names.includes(first);
  const place = path === '' || known ? path.replaceAll('/', '.') : 'a parameter';
  const nearest = expected === 'is not known' ? nearestKey(path, schema) : undefined;
  const proposal = nearest === undefined ? '' : `, did you mean ${nearest}?`;
  const hint = known ? '' : `; it has ${names.length === 0 ? 'no parameters' : names.join(', ')}`;
  const text = [name, place, expected].filter((it) => it !== '').join(': ');
  return new BridgeError('ERR_COMMAND_PARAMETERS', `${text}${proposal}${hint}`);
}

/** The key of the schema that an unknown one resembles, among those beside it. */
function nearestKey(path: string, schema: JsonSchema): string | undefined {
  const keys = path.split('/');
  const above = keys.slice(0, -1).reduce<unknown>(schemaOfMember, schema);
  const known = isPlainMap(above) && isPlainMap(above.properties) ? above.properties : {};
  return nearestName(keys.at(-1) ?? '', Object.keys(known));
}

function withDefaults(
  given: Readonly<Record<string, unknown>>,
  schema: JsonSchema,
): Readonly<Record<string, unknown>> {
  const defaults = Object.entries(propertiesOf(schema)).flatMap(([key, property]) =>
    isPlainMap(property) && 'default' in property ? [[key, property.default] as const] : [],
  );
  return { ...Object.fromEntries(defaults), ...given };
}

// Checks of texts, so that nothing interprets them as anything but text.

/** Where a text goes. */
export interface TextUse {
  /** Into a state file, which is rendered and then read as YAML. */
  readonly isRendered: boolean;
}

/** A text that is refused. */
export interface TextProblem {
  /** Keys with `/` between them. */
  readonly path: string;
  readonly expected: string;
}

/** Control characters, marks that cannot be seen, halves of characters, other line ends. */
// protection: invisible-texts
const invisibleCharacters = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
const lineBreaks = /[\n\t]/g;
/** What minions look for in maps of arguments [salt.minion load_args_and_kwargs]. */
// protection: maps-of-keywords
const keywordMarker = /^__/;
const maxNesting = 16;

/** Begins with what YAML reads as something else, or has in it what ends a plain text. */
const notPlainYaml = /^[\s\-?:,[\]{}#&*!|>'"%@`]|: |\s#|:$|\s$|[{}[\]\n\t]/;

/** Looks at every text in a value, by its schema; `undefined`: nothing is wrong. */
export function findTextProblem(
  value: unknown,
  schema: unknown,
  use: TextUse,
  path = '',
): TextProblem | undefined {
  if (path.split('/').length > maxNesting) return { path, expected: 'must not be nested so deep' };
  if (typeof value === 'string') {
    const expected = problemOfText(value, schema, use);
    return expected === undefined ? undefined : { path, expected };
  }
  if (Array.isArray(value)) {
    return firstResult(value.entries(), (index, one) =>
      findTextProblem(one, schemaOfMember(schema, index), use, joinPath(path, index)),
    );
  }
  if (!isPlainMap(value)) return undefined;
  return firstResult(Object.entries(value), (key, one) => {
    if (
      keywordMarker.test(key) ||
      invisibleCharacters.test(key) ||
      (use.isRendered && !isPlain(key))
    ) {
      return { path: joinPath(path, '…'), expected: 'must have another key' };
    }
    return findTextProblem(one, schemaOfMember(schema, key), use, joinPath(path, key));
  });
}

function problemOfText(text: string, schema: unknown, { isRendered }: TextUse): string | undefined {
  // protection: options-as-texts
  if (/^\s*-/.test(text) && !isAnnotated(schema, 'x-allow-leading-dash'))
    return 'must not begin with -';
  const shown = isAnnotated(schema, 'x-allow-newlines') ? text.replace(lineBreaks, '') : text;
  if (invisibleCharacters.test(shown))
    return 'must have no line breaks, control or invisible characters';
  if (isRendered && !isPlain(text) && !isAnnotated(schema, 'x-quoted-by-template'))
    return 'must be plain text to YAML';
  return undefined;
}

function isPlain(text: string): boolean {
  return isPlainYamlText(text) && !notPlainYaml.test(text);
}

function joinPath(path: string, key: string | number): string {
  return path === '' ? String(key) : `${path}/${key}`;
}

function firstResult<K, V, R>(
  entries: Iterable<readonly [K, V]>,
  find: (key: K, value: V) => R | undefined,
): R | undefined {
  for (const [key, value] of entries) {
    const found = find(key, value);
    if (found !== undefined) return found;
  }
  return undefined;
}

// Mapping of parameters to keyword arguments; never a template.

/** Parameters of a call. */
export type Parameters = Readonly<Record<string, JsonValue>>;

/** By keyword. */
export type ArgumentSources = Readonly<Record<string, ArgumentSource>>;

/** The keyword under which a state finds where its secrets are. */
export const secretsKeyword = 'saltbridge_secrets';

/** A parameter that was given; `undefined`: it was not, whatever objects inherit under its name. */
export function givenParameter(parameters: Parameters, name: string): JsonValue | undefined {
  // protection: inherited-parameters
  if (!Object.hasOwn(parameters, name)) return undefined;
  return parameters[name];
}

/** The parameters that a source looks at. */
export function parametersOfArgument(source: ArgumentSource): string[] {
  if ('parameter' in source) return [source.parameter];
  return 'map' in source ? Object.values(source.map).flatMap(parametersOfArgument) : [];
}

/** What is not given is not passed on. */
export function argumentValues(sources: ArgumentSources, parameters: Parameters): WireMap {
  const values: WireMap = {};
  for (const [keyword, source] of Object.entries(sources)) {
    const value = argumentOf(source, parameters);
    if (value !== undefined) values[keyword] = value;
  }
  return values;
}

/** `undefined`: a parameter that was not given. */
function argumentOf(source: ArgumentSource, parameters: Parameters): WireValue | undefined {
  if ('parameter' in source) return toWire(givenParameter(parameters, source.parameter));
  return 'value' in source ? toWire(source.value) : argumentValues(source.map, parameters);
}

function toWire(value: JsonValue | undefined): WireValue | undefined {
  return value as WireValue | undefined; // JSON is part of what goes over the wire
}
