/**
 * Parameters of commands: compiles their JSON Schema with its custom keywords, and validates values
 * from callers.
 */

import { compileJsonSchema, PolicyError } from '#acl';
import { compileLinearSearch, plainNumbers } from '#minion-protocol';
import { isLargerThan, nearestName } from '#runtime';
import { Float } from '#template/python/values.ts';
import { BridgeError, CatalogError } from '../errors.ts';
import { catalogError, isPlainMap, type JsonSchema, keywordForm } from './command-definition.ts';
import { schemaOfMember, withoutAnnotations } from './text-annotations.ts';
import type { TextProblem } from './text-checks.ts';

/** Value of a parameter: JSON, in which a float without a fraction is a `Float`. */
export type ParameterValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Float
  | readonly ParameterValue[]
  | { readonly [name: string]: ParameterValue };

/** Parameters of a command, by name. */
export type Parameters = Readonly<Record<string, ParameterValue>>;

/**
 * Maximum number of values in the parameters of a run. It limits the work, because each check of
 * the parameters visits all values.
 */
const maxValues = 10_000;

/** Compiled schema of parameters. */
export interface CompiledParameters {
  readonly schema: JsonSchema;
  readonly names: readonly string[];
  /**
   * Validates parameters, and adds defaults.
   * @param more - additional check, called if the schema accepts the parameters
   * @throws BridgeError ERR_COMMAND_PARAMETERS, with the location and the expected value
   */
  check(given: unknown, more?: (parameters: unknown) => TextProblem | undefined): Parameters;
}

/**
 * Compiles the schema of parameters. Parameters that the schema does not describe are rejected.
 * @param nameForm - form of parameter names. Default: letters, digits and `_`
 * @throws BridgeError ERR_CATALOG
 */
export function compileParameters(
  name: string,
  given: JsonSchema = { type: 'object', properties: {} },
  nameForm: RegExp = keywordForm,
): CompiledParameters {
  const schema = closeSchema(name, given, nameForm);
  const names = Object.keys(propertiesOf(schema));
  const problemOf = compileSchema(name, 'parameters', schema);
  return {
    schema,
    names,
    check: (values, more) => {
      if (isLargerThan(values, { values: maxValues })) {
        const text = `${name}: the parameters contain more than ${maxValues} values; split the run`;
        throw new BridgeError('ERR_COMMAND_PARAMETERS', text);
      }
      const parameters = isPlainMap(values) ? withDefaults(values, schema) : values;
      const problem = problemOf(parameters) ?? more?.(parameters);
      if (problem !== undefined) throw parameterError(name, problem, schema);
      // The schema describes JSON only.
      return withIntegers(parameters as Parameters, schema) as Parameters;
    },
  };
}

/**
 * Compiles a schema in a definition.
 * @throws BridgeError ERR_CATALOG
 */
export function compileSchema(
  name: string,
  field: string,
  schema: JsonSchema,
): ReturnType<typeof compileJsonSchema> {
  try {
    const plain = withoutAnnotations(plainNumbers(schema));
    return compileJsonSchema(plain, compileLinearSearch);
  } catch (cause) {
    if (!(cause instanceof PolicyError)) throw cause;
    const mistake = { path: [field, ...cause.path], problem: cause.problem };
    throw new CatalogError(name, [mistake], { cause });
  }
}

/**
 * Replaces a `Float` by a number where the schema describes an integer. In JSON Schema, 1.0 is an
 * integer.
 */
function withIntegers(value: ParameterValue, schema: unknown): ParameterValue {
  if (value instanceof Float) {
    return isPlainMap(schema) && schema.type === 'integer' ? value.value : value;
  }
  if (typeof value !== 'object' || value === null) return value;
  if (plainNumbers(value) === value) return value;
  if (Array.isArray(value)) {
    return value.map((item, index) => withIntegers(item, schemaOfMember(schema, index)));
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name,
      withIntegers(item, schemaOfMember(schema, name)),
    ]),
  );
}

function closeSchema(name: string, schema: JsonSchema, nameForm: RegExp): JsonSchema {
  const { type, properties = {}, additionalProperties = false } = schema;
  if (type !== 'object' || !isPlainMap(properties)) {
    throw catalogError(
      name,
      'parameters',
      'must be a JSON schema with type: object and properties',
    );
  }
  if (additionalProperties !== false) {
    throw catalogError(
      name,
      'parameters.additionalProperties',
      'must be false, which is the default',
    );
  }
  const bad = Object.keys(properties).find((key) => !nameForm.test(key));
  if (bad !== undefined) {
    const shown = JSON.stringify(bad.slice(0, 64));
    const text = `${shown}: the name of a parameter may contain only letters, digits and _`;
    throw catalogError(name, 'parameters', text);
  }
  return { ...schema, properties, additionalProperties };
}

function propertiesOf({ properties }: JsonSchema): Readonly<Record<string, unknown>> {
  return isPlainMap(properties) ? properties : {};
}

/**
 * Returns the error for invalid parameters. The error names parameters that the catalog declares,
 * and contains no text from the caller.
 */
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

/**
 * Returns the declared name that is most similar to an unknown name of a parameter or field, or
 * `undefined` if none is similar.
 */
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
