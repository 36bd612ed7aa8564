/** The parameters of a command or a plan, by their schema. */
import { compileJsonSchema, PolicyError } from '../../acl/index.ts';
import { compileSearchPattern } from '../../minion-protocol/index.ts';
import { BridgeError } from '../errors.ts';
import { withoutAnnotations } from './annotations.ts';
import type { Parameters } from './argument-values.ts';
import { isMap, type JsonSchema, keywordForm, refuse } from './definition.ts';
import type { TextProblem } from './texts.ts';

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
  const schema = closed(name, given);
  const names = Object.keys(propertiesOf(schema));
  const problemOf = compileSchema(name, 'parameters', schema);
  return {
    schema,
    names,
    check: (values, more) => {
      const parameters = isMap(values) ? withDefaults(values, schema) : values;
      const problem = problemOf(parameters) ?? more?.(parameters);
      if (problem !== undefined) throw refuseParameters(name, problem, names);
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
    return compileJsonSchema(withoutAnnotations(schema), compileSearchPattern);
  } catch (cause) {
    if (!(cause instanceof PolicyError)) throw cause;
    throw new BridgeError('ERR_CATALOG', `${name}: ${field}: ${cause.message}`, { cause });
  }
}

function closed(name: string, schema: JsonSchema): JsonSchema {
  const { type, properties = {}, additionalProperties = false } = schema;
  if (type !== 'object' || !isMap(properties)) {
    throw refuse(name, 'parameters', 'expected the schema of an object: type: object');
  }
  if (additionalProperties !== false) {
    throw refuse(name, 'parameters.additionalProperties', 'expected false, which it is by itself');
  }
  const bad = Object.keys(properties).find((key) => !keywordForm.test(key));
  if (bad !== undefined) {
    throw refuse(name, 'parameters', 'a parameter is named by letters, digits and _');
  }
  // protection: extra-parameters
  return { ...schema, properties, additionalProperties };
}

function propertiesOf({ properties }: JsonSchema): Readonly<Record<string, unknown>> {
  return isMap(properties) ? properties : {};
}

/** The names of parameters are the catalog's own; nothing of the caller's is told. */
function refuseParameters(
  name: string,
  { path, expected }: TextProblem,
  names: readonly string[],
): BridgeError {
  const [first = ''] = path.split('/');
  const known = names.includes(first);
  const place = path === '' || known ? path.replaceAll('/', '.') : 'a parameter';
  const hint = known ? '' : `; it has ${names.length === 0 ? 'no parameters' : names.join(', ')}`;
  const text = [name, place, expected].filter((it) => it !== '').join(': ');
  return new BridgeError('ERR_COMMAND_PARAMETERS', `${text}${hint}`);
}

function withDefaults(
  given: Readonly<Record<string, unknown>>,
  schema: JsonSchema,
): Readonly<Record<string, unknown>> {
  const defaults = Object.entries(propertiesOf(schema)).flatMap(([key, property]) =>
    isMap(property) && 'default' in property ? [[key, property.default] as const] : [],
  );
  return { ...Object.fromEntries(defaults), ...given };
}
