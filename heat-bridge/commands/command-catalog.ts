/** Compiled commands of a catalog. Errors in a definition are found before a command runs. */

import type { JsonValue } from '#runtime';
import { BridgeError } from '../errors.ts';
import {
  type ArgumentSources,
  argumentValues,
  parametersOfArgument,
  secretsKeyword,
} from './argument-mapping.ts';
import {
  type CommandDefinition,
  catalogError,
  isPlainMap,
  type MinionCall,
} from './command-definition.ts';
import { checkCommandDefinition } from './definition-checks.ts';
import {
  type FunctionReview,
  type FunctionReviews,
  loadFunctionReviews,
  type ReviewedFunction,
  reviewedFunctionOf,
} from './function-lists.ts';
import type { Parameters } from './parameters.ts';
import { compileParameters, compileSchema } from './parameters.ts';
import { compileInstall } from './states/install-definition.ts';
import { applyStatesCall, problemOfStates, statesFunction, statesKey } from './states/state-run.ts';
import { findTextProblem, type TextProblem } from './text-checks.ts';

/** Compiled command. */
export interface CompiledCommand {
  readonly definition: CommandDefinition;
  /** Function that minions execute. */
  readonly fun: string;
  /** Classification of the function in saltbridge's lists of reviewed and unsafe functions. */
  readonly standing: FunctionReview['kind'];
  /**
   * Validates parameters, and adds defaults.
   * @throws BridgeError ERR_COMMAND_PARAMETERS, with the location and the expected value
   */
  check(parameters: unknown): Parameters;
  /**
   * Returns the function call that is published to the minions.
   * @param secrets - reference to the run's secrets: the key below `saltbridge:secrets` in the
   * pillar of the minions. Used only if the run has secrets, or if the command is an `install`
   */
  toCall(parameters: Parameters, secrets: string): MinionCall;
  /**
   * Returns the data to put into the pillar of each minion: for `install`, the compiled states; for
   * any other command, its secret parameters.
   */
  pillarOf(parameters: Parameters): Parameters;
  /** Splits parameters into secret ones and others. */
  split(parameters: Parameters): { readonly secret: Parameters; readonly open: Parameters };
  /** Whether any of these parameters is secret. */
  givesSecrets(parameters: Parameters): boolean;
  /**
   * Returns the reason if a return with the retcode 0 is nevertheless a failure. Returns
   * `undefined` if it is a success.
   */
  problemOfReturn(value: unknown): string | undefined;
}

/**
 * Compiles a command.
 * @throws BridgeError ERR_CATALOG
 */
function compileCommand(
  definition: CommandDefinition,
  standings: FunctionReviews,
): CompiledCommand {
  const { name, secret = [], state, install } = definition;
  const fun = functionName(definition);
  const parameters = compileParameters(name, definition.parameters);
  const { schema, names } = parameters;
  const statesOf = install === undefined ? undefined : compileInstall(name, install, names);
  const sources = definition.arguments ?? defaultArguments(names, secret);
  const standing = standings(fun);
  checkCommandDefinition(definition, sources, names, standing);
  const reviewed = definition.reviewed === undefined ? reviewedFunctionOf(standing) : undefined;
  const words =
    reviewed === undefined ? new Set<string>() : singleWordParameters(sources, reviewed);
  const isSecret = (key: string): boolean => secret.includes(key);
  return {
    definition,
    fun,
    // The operator has reviewed the state file, and callers cannot select the function that applies
    // it.
    standing: state === undefined && install === undefined ? standing.kind : 'reviewed',
    check: (given) => {
      const checked = parameters.check(
        given,
        (values) =>
          findTextProblem(values, schema, { isRendered: state !== undefined }) ??
          findWordProblem(values, words),
      );
      // Compile before the job is published, so that the caller receives the errors.
      statesOf?.(checked);
      return checked;
    },
    toCall: (given, secrets) => {
      if (statesOf !== undefined) return applyStatesCall(secrets);
      const values = argumentValues(sources, given);
      if (state === undefined) return { fun, kwarg: values };
      const more = secret.length === 0 ? {} : { [secretsKeyword]: secrets };
      return { fun, kwarg: { mods: state, pillar: { ...values, ...more } } };
    },
    pillarOf: (given) =>
      statesOf === undefined
        ? pickParameters(given, isSecret)
        : { [statesKey]: statesOf(given).states as JsonValue }, // JSON values only
    split: (given) => ({
      secret: pickParameters(given, isSecret),
      open: pickParameters(given, (key) => !isSecret(key)),
    }),
    givesSecrets: (given) => Object.keys(given).some((key) => secret.includes(key)),
    problemOfReturn: compileReturns(definition),
  };
}

function functionName({ name, function: fun, state, install }: CommandDefinition): string {
  const [one, ...more] = [
    fun,
    state === undefined ? undefined : 'state.apply',
    install === undefined ? undefined : statesFunction,
  ].filter((it) => it !== undefined);
  if (one !== undefined && more.length === 0) return one;
  throw catalogError(name, '', 'set exactly one of the fields `function`, `state` and `install`');
}

function defaultArguments(names: readonly string[], secret: readonly string[]): ArgumentSources {
  const open = names.filter((parameter) => !secret.includes(parameter));
  return Object.fromEntries(open.map((parameter) => [parameter, { parameter }]));
}

/**
 * Returns the parameters that may contain only a single word, according to the list of reviewed
 * functions.
 */
function singleWordParameters(
  sources: ArgumentSources,
  { isOpen, keywords }: ReviewedFunction,
): ReadonlySet<string> {
  const narrow = Object.entries(sources).filter(
    ([keyword]) => !isOpen && keywords.get(keyword) === 'word',
  );
  return new Set(narrow.flatMap(([, source]) => parametersOfArgument(source)));
}

const singleWord = /^[\p{L}\p{N}_][\p{L}\p{N}_.:@%+~-]*$/u;

function findWordProblem(parameters: unknown, words: ReadonlySet<string>): TextProblem | undefined {
  if (!isPlainMap(parameters)) return undefined;
  for (const [key, value] of Object.entries(parameters)) {
    if (!words.has(key)) continue;
    const isSimple = typeof value === 'number' || typeof value === 'boolean';
    if (isSimple || (typeof value === 'string' && singleWord.test(value))) continue;
    return { path: key, expected: 'must be one word: letters, digits and _ . : @ % + ~ -' };
  }
  return undefined;
}

function compileReturns({
  name,
  returns,
  success,
  install,
}: CommandDefinition): CompiledCommand['problemOfReturn'] {
  const shape = returns === undefined ? undefined : compileSchema(name, 'returns', returns);
  const sign = success === undefined ? undefined : compileSchema(name, 'success', success);
  return (value) => {
    const unapplied = install === undefined ? undefined : problemOfStates(value);
    if (unapplied !== undefined) return unapplied;
    const problem = shape?.(value);
    if (problem !== undefined)
      return `the return does not match the schema in the field \`returns\`: ${problem.expected}`;
    return sign?.(value) === undefined
      ? undefined
      : 'the return does not match the schema in the field `success`';
  };
}

function pickParameters(parameters: Parameters, isMeant: (key: string) => boolean): Parameters {
  return Object.fromEntries(Object.entries(parameters).filter(([key]) => isMeant(key)));
}

/** Catalog of compiled commands. */
export class Catalog {
  readonly #commands: ReadonlyMap<string, CompiledCommand>;

  /**
   * Compiles the definitions.
   * @param compiled - additional commands that are compiled already
   * @throws BridgeError ERR_CATALOG
   */
  constructor(
    definitions: readonly CommandDefinition[],
    compiled: readonly CompiledCommand[] = [],
  ) {
    const standings = loadFunctionReviews();
    const commands = new Map(compiled.map((it) => [it.definition.name, it]));
    for (const definition of definitions) {
      const { name } = definition;
      if (commands.has(name)) throw catalogError(name, '', 'duplicate command name');
      commands.set(name, compileCommand(definition, standings));
    }
    this.#commands = commands;
  }

  /** Returns the commands, sorted by name. */
  list(): readonly CompiledCommand[] {
    return [...this.#commands.values()].sort((a, b) =>
      a.definition.name < b.definition.name ? -1 : 1,
    );
  }

  /**
   * Returns the command with this name.
   * @throws BridgeError ERR_COMMAND_UNKNOWN
   */
  get(name: string): CompiledCommand {
    const found = this.#commands.get(name);
    if (found !== undefined) return found;
    const text = 'the catalog has no command with this name';
    throw new BridgeError('ERR_COMMAND_UNKNOWN', text);
  }
}
