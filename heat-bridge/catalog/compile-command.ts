/** A definition made ready for calls: everything that could be wrong with it is looked at here. */
import type { WireValue } from '../../minion-protocol/index.ts';
import {
  type Parameters,
  parametersIn,
  type Sources,
  secretsKey,
  valuesOf,
} from './argument-values.ts';
import { checkDefinition } from './check-definition.ts';
import { type CommandDefinition, isMap, refuse } from './definition.ts';
import {
  type FunctionStanding,
  listed,
  type ReviewedFunction,
  type Standings,
} from './function-lists.ts';
import { compileParameters, compileSchema } from './parameters.ts';
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
  /** Whether any of the parameters is secret. */
  givesSecrets(parameters: Parameters): boolean;
  /** Why a return means failure although the retcode is 0; `undefined`: it does not. */
  problemOfReturn(value: unknown): string | undefined;
}

/** @throws BridgeError ERR_CATALOG */
export function compileCommand(
  definition: CommandDefinition,
  standings: Standings,
): CompiledCommand {
  const { name, secret = [], state } = definition;
  const fun = functionOf(definition);
  const parameters = compileParameters(name, definition.parameters);
  const { schema, names } = parameters;
  const sources = definition.arguments ?? ownNames(names, secret);
  const standing = standings(fun);
  checkDefinition(definition, sources, names, standing);
  const reviewed = definition.reviewed === undefined ? listed(standing) : undefined;
  const words = reviewed === undefined ? new Set<string>() : wordsOf(sources, reviewed);
  return {
    definition,
    fun,
    standing: standing.kind,
    check: (given) =>
      parameters.check(
        given,
        (values) =>
          findTextProblem(values, schema, { isRendered: state !== undefined }) ??
          findNoWord(values, words),
      ),
    toCall: (given, secrets) => {
      const values = valuesOf(sources, given);
      if (state === undefined) return { fun, kwarg: values };
      const more = secret.length === 0 ? {} : { [secretsKey]: secrets };
      // protection: published-secrets
      return { fun, kwarg: { mods: state, pillar: { ...values, ...more } } };
    },
    split: (given) => ({
      secret: pick(given, (key) => secret.includes(key)),
      open: pick(given, (key) => !secret.includes(key)),
    }),
    givesSecrets: (given) => Object.keys(given).some((key) => secret.includes(key)),
    problemOfReturn: compileReturns(definition),
  };
}

function functionOf({ name, function: fun, state }: CommandDefinition): string {
  if (fun !== undefined && state === undefined) return fun;
  if (state !== undefined && fun === undefined) return 'state.apply';
  throw refuse(name, '', 'expected either function or state');
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
  for (const [key, value] of Object.entries(parameters)) {
    if (!words.has(key)) continue;
    const isSimple = typeof value === 'number' || typeof value === 'boolean';
    if (isSimple || (typeof value === 'string' && word.test(value))) continue;
    return { path: key, expected: 'must be one word: letters, digits and _ . : @ % + ~ -' };
  }
  return undefined;
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

function pick(parameters: Parameters, isMeant: (key: string) => boolean): Parameters {
  return Object.fromEntries(Object.entries(parameters).filter(([key]) => isMeant(key)));
}
