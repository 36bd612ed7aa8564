/** A definition made ready for calls: everything that could be wrong with it is looked at here. */
import { compileJsonSchema, PolicyError } from '../../acl/index.ts';
import { compileSearch, type WireValue } from '../../minion-protocol/index.ts';
import { BridgeError } from '../errors.ts';
import { withoutAnnotations } from './annotations.ts';
import {
  type Parameters,
  parametersIn,
  type Sources,
  secretsKey,
  valuesOf,
} from './argument-values.ts';
import { checkDefinition } from './check-definition.ts';
import {
  type CommandDefinition,
  isMap,
  type JsonSchema,
  keywordForm,
  refuse,
} from './definition.ts';
import {
  type FunctionStanding,
  listed,
  type ReviewedFunction,
  type Standings,
} from './function-lists.ts';
import { findTextProblem, type TextProblem } from './texts.ts';

/** What a minion is asked for. */
export interface MinionCall {
  readonly fun: string;
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** A command that can be called. */
export interface CompiledCommand {
  readonly definition: CommandDefinition;
  /** The minion's function. */
  readonly fun: string;
  /** What the shipped lists say of it. */
  readonly standing: FunctionStanding['kind'];
  /**
   * The parameters with their defaults.
   * @throws BridgeError ERR_COMMAND_PARAMETERS, with the place and what was expected
   */
  check(parameters: unknown): Parameters;
  /** @param secrets - where the target finds what is secret; without secrets it is not looked at */
  toCall(parameters: Parameters, secrets: string): MinionCall;
  /** The parameters that are secret, and the others. */
  split(parameters: Parameters): { readonly secret: Parameters; readonly open: Parameters };
  /** Why a return means failure although the retcode is 0; `undefined`: it does not. */
  problemOfReturn(value: unknown): string | undefined;
}

const nothing: JsonSchema = { type: 'object', properties: {} };
/** @throws BridgeError ERR_CATALOG */
export function compileCommand(
  definition: CommandDefinition,
  standings: Standings,
): CompiledCommand {
  const { name, secret = [], state } = definition;
  const fun = functionOf(definition);
  const schema = parametersOf(definition);
  const names = Object.keys(propertiesOf(schema));
  const sources = definition.arguments ?? ownNames(names, secret);
  const standing = standings(fun);
  checkDefinition(definition, sources, names, standing);
  const problemOf = compileSchema(name, 'parameters', schema);
  const reviewed = definition.reviewed === undefined ? listed(standing) : undefined;
  const words = reviewed === undefined ? new Set<string>() : wordsOf(sources, reviewed);
  return {
    definition,
    fun,
    standing: standing.kind,
    check: (given) => {
      const parameters = isMap(given) ? withDefaults(given, schema) : given;
      const problem =
        problemOf(parameters) ??
        findTextProblem(parameters, schema, { isRendered: state !== undefined }) ??
        findNoWord(parameters, words);
      if (problem !== undefined) throw refuseParameters(name, problem, names);
      return parameters as Parameters; // what the schema describes is JSON
    },
    toCall: (parameters, secrets) => {
      const values = valuesOf(sources, parameters);
      if (state === undefined) return { fun, kwarg: values };
      const more = secret.length === 0 ? {} : { [secretsKey]: secrets };
      return { fun, kwarg: { mods: state, pillar: { ...values, ...more } } };
    },
    split: (parameters) => ({
      secret: pick(parameters, (key) => secret.includes(key)),
      open: pick(parameters, (key) => !secret.includes(key)),
    }),
    problemOfReturn: compileReturns(definition),
  };
}

function functionOf({ name, function: fun, state }: CommandDefinition): string {
  if (fun !== undefined && state === undefined) return fun;
  if (state !== undefined && fun === undefined) return 'state.apply';
  throw refuse(name, '', 'expected either function or state');
}

/** What is not described is not taken. */
function parametersOf({ name, parameters = nothing }: CommandDefinition): JsonSchema {
  const { type, properties = {}, additionalProperties = false } = parameters;
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
  return { ...parameters, properties, additionalProperties };
}

function propertiesOf({ properties }: JsonSchema): Readonly<Record<string, unknown>> {
  return isMap(properties) ? properties : {};
}

function ownNames(names: readonly string[], secret: readonly string[]): Sources {
  const open = names.filter((parameter) => !secret.includes(parameter));
  return Object.fromEntries(open.map((parameter) => [parameter, { parameter }]));
}

/** Parameters that the shipped list lets have one word alone. */
function wordsOf(sources: Sources, { isOpen, keywords }: ReviewedFunction): ReadonlySet<string> {
  const narrow = Object.entries(sources).filter(
    ([keyword]) => !isOpen && keywords.get(keyword) === 'word',
  );
  return new Set(narrow.flatMap(([, source]) => parametersIn(source)));
}

const word = /^[\p{L}\p{N}_][\p{L}\p{N}_.:@%+~-]*$/u;

function findNoWord(parameters: unknown, words: ReadonlySet<string>): TextProblem | undefined {
  if (!isMap(parameters)) return undefined;
  for (const key of words) {
    const value = parameters[key];
    const isSimple = value === undefined || typeof value === 'number' || typeof value === 'boolean';
    if (isSimple || (typeof value === 'string' && word.test(value))) continue;
    return { path: key, expected: 'must be one word: letters, digits and _ . : @ % + ~ -' };
  }
  return undefined;
}

function compileSchema(
  name: string,
  field: string,
  schema: JsonSchema,
): ReturnType<typeof compileJsonSchema> {
  try {
    return compileJsonSchema(withoutAnnotations(schema), compileSearch);
  } catch (cause) {
    if (!(cause instanceof PolicyError)) throw cause;
    throw new BridgeError('ERR_CATALOG', `${name}: ${field}: ${cause.message}`, { cause });
  }
}

function compileReturns({
  name,
  returns,
  success,
}: CommandDefinition): CompiledCommand['problemOfReturn'] {
  const shape = returns === undefined ? undefined : compileSchema(name, 'returns', returns);
  const sign = success === undefined ? undefined : compileSchema(name, 'success', success);
  return (value) => {
    const problem = shape?.(value);
    if (problem !== undefined) return `the return has not the promised shape: ${problem.expected}`;
    return sign?.(value) === undefined ? undefined : 'the return does not mean success';
  };
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

function pick(parameters: Parameters, isMeant: (key: string) => boolean): Parameters {
  return Object.fromEntries(Object.entries(parameters).filter(([key]) => isMeant(key)));
}
