/** Validates and compiles the definitions of commands, and finds them by name. */

import type { JsonValue } from '#runtime';
import { BridgeError } from '../errors.ts';
import {
  type CommandDefinition,
  catalogError,
  isPlainMap,
  type JsonSchema,
  keywordForm,
  type MinionCall,
} from './command-definition.ts';
import {
  type FunctionReview,
  type FunctionReviews,
  loadFunctionReviews,
  type ReviewedFunction,
  reviewedFunctionOf,
} from './function-lists.ts';
import {
  type ArgumentSources,
  argumentValues,
  compileParameters,
  compileSchema,
  findTextProblem,
  type Parameters,
  parametersOfArgument,
  secretsKeyword,
  type TextProblem,
} from './parameters.ts';
import { compileInstall } from './states/install-definition.ts';
import { applyStatesCall, problemOfStates, statesFunction, statesKey } from './states/state-run.ts';

// Validation of function, arguments and secrets.

/** Keywords that Salt itself looks at before or instead of the function. */
const reservedKeywords: ReadonlySet<string> = new Set([
  'runas',
  'password_file',
  'concurrent',
  'queue',
  'python_shell',
  'shell',
]);

/**
 * Looks at everything but the schemas.
 * @param names - of the parameters
 * @throws BridgeError ERR_CATALOG
 */
function checkCommandDefinition(
  definition: CommandDefinition,
  sources: ArgumentSources,
  names: readonly string[],
  standing: FunctionReview,
): void {
  checkFunctionReview(definition, standing);
  checkSecrets(definition, names, sources);
  checkSources(definition, sources, names, standing);
}

function checkFunctionReview(definition: CommandDefinition, standing: FunctionReview): void {
  const { name, function: fun, reviewed, unsafe, state, install } = definition;
  // Nothing of a caller's is more than a value there.
  if (install !== undefined) return;
  // A state file is the master's own; what it makes of parameters somebody must have looked at.
  if (state !== undefined) {
    if (reviewed !== undefined) return;
    throw catalogError(name, 'reviewed', 'expected why this state file may be exposed');
  }
  if (standing.kind === 'unsafe' && unsafe === undefined) {
    const problem = `${fun} runs or writes what it is handed; choose another function, or say i-understand`;
    throw catalogError(name, 'unsafe', problem);
  }
  if (standing.kind === 'unknown' && reviewed === undefined) {
    throw catalogError(
      name,
      'reviewed',
      `${fun} is not in the shipped list; say why it may be exposed`,
    );
  }
}

function checkSources(
  { name, reviewed, state, unsafe, install, arguments: given }: CommandDefinition,
  sources: ArgumentSources,
  names: readonly string[],
  standing: FunctionReview,
): void {
  if (install !== undefined) {
    if (given === undefined) return;
    throw catalogError(name, 'arguments', 'install names its parameters itself');
  }
  const known =
    reviewed === undefined && unsafe === undefined ? reviewedFunctionOf(standing) : undefined;
  for (const [keyword, source] of Object.entries(sources)) {
    const field = `arguments.${keyword}`;
    if (!keywordForm.test(keyword))
      throw catalogError(name, field, 'expected a keyword of the function');
    if (state === undefined && reservedKeywords.has(keyword) && unsafe === undefined) {
      throw catalogError(name, field, 'this keyword chooses how commands are run; say unsafe');
    }
    const missing = parametersOfArgument(source).find((it) => !names.includes(it));
    if (missing !== undefined) throw catalogError(name, field, `there is no parameter ${missing}`);
    if (known !== undefined && !known.isOpen && !known.keywords.has(keyword)) {
      throw catalogError(name, field, 'the shipped list does not have this keyword; say reviewed');
    }
  }
  const used = new Set(Object.values(sources).flatMap(parametersOfArgument));
  const unused = names.find((it) => !used.has(it));
  // A secret goes another way.
  if (unused !== undefined && state === undefined) {
    throw catalogError(name, `parameters.${unused}`, 'no argument has this parameter');
  }
}

function checkSecrets(
  { name, secret = [], state, install }: CommandDefinition,
  names: readonly string[],
  sources: ArgumentSources,
): void {
  if (secret.length === 0) return;
  if (state === undefined && install === undefined) {
    const problem =
      'a publication can be read by every minion, and a function takes nothing from its pillar; ' +
      'use a state file, or install';
    throw catalogError(name, 'secret', problem);
  }
  const missing = secret.find((it) => !names.includes(it));
  if (missing !== undefined) throw catalogError(name, 'secret', `there is no parameter ${missing}`);
  const told = Object.values(sources)
    .flatMap(parametersOfArgument)
    .find((it) => secret.includes(it));
  if (told !== undefined) throw catalogError(name, 'arguments', `${told} is secret`);
  if (Object.hasOwn(sources, secretsKeyword))
    throw catalogError(name, 'arguments', `${secretsKeyword} is ours`);
}

// Compilation, which finds every fault of a definition.

/** A command that can be called. */
export interface CompiledCommand {
  readonly definition: CommandDefinition;
  /** The minion's function. */
  readonly fun: string;
  /** What the shipped lists say of it. */
  readonly standing: FunctionReview['kind'];
  /**
   * The parameters with their defaults.
   * @throws BridgeError ERR_COMMAND_PARAMETERS, with the place and what was expected
   */
  check(parameters: unknown): Parameters;
  /** @param secrets - where the target finds what is secret; without secrets it is not looked at */
  toCall(parameters: Parameters, secrets: string): MinionCall;
  /** What the target finds there. */
  pillarOf(parameters: Parameters): Parameters;
  /** The parameters that are secret, and the others. */
  split(parameters: Parameters): { readonly secret: Parameters; readonly open: Parameters };
  /** Whether any of the parameters is secret. */
  givesSecrets(parameters: Parameters): boolean;
  /** Why a return means failure although the retcode is 0; `undefined`: it does not. */
  problemOfReturn(value: unknown): string | undefined;
}

/** @throws BridgeError ERR_CATALOG */
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
    // States are reviewed by the operator, and what applies them is nobody else's choice.
    standing: state === undefined && install === undefined ? standing.kind : 'reviewed',
    check: (given) => {
      const checked = parameters.check(
        given,
        (values) =>
          findTextProblem(values, schema, { isRendered: state !== undefined }) ??
          findWordProblem(values, words),
      );
      // Before it is published: what cannot be compiled is the caller's to correct.
      statesOf?.(checked);
      return checked;
    },
    toCall: (given, secrets) => {
      if (statesOf !== undefined) return applyStatesCall(secrets);
      const values = argumentValues(sources, given);
      if (state === undefined) return { fun, kwarg: values };
      const more = secret.length === 0 ? {} : { [secretsKeyword]: secrets };
      // protection: published-secrets
      return { fun, kwarg: { mods: state, pillar: { ...values, ...more } } };
    },
    pillarOf: (given) =>
      statesOf === undefined
        ? pickParameters(given, isSecret)
        : { [statesKey]: statesOf(given).states as JsonValue }, // values of JSON and nothing else
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
  throw catalogError(name, '', 'expected either function or state or install');
}

function defaultArguments(names: readonly string[], secret: readonly string[]): ArgumentSources {
  const open = names.filter((parameter) => !secret.includes(parameter));
  return Object.fromEntries(open.map((parameter) => [parameter, { parameter }]));
}

/** Parameters that the shipped list lets have one word alone. */
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
    if (problem !== undefined) return `the return has not the promised shape: ${problem.expected}`;
    return sign?.(value) === undefined ? undefined : 'the return does not mean success';
  };
}

function pickParameters(parameters: Parameters, isMeant: (key: string) => boolean): Parameters {
  return Object.fromEntries(Object.entries(parameters).filter(([key]) => isMeant(key)));
}

/** Commands that can be called. */
export class Catalog {
  readonly #commands: ReadonlyMap<string, CompiledCommand>;

  /**
   * @param compiled - commands that no definition describes
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
      if (commands.has(name))
        throw catalogError(name, '', 'there is a command of this name already');
      commands.set(name, compileCommand(definition, standings));
    }
    this.#commands = commands;
  }

  /** In the order of their names. */
  list(): readonly CompiledCommand[] {
    return [...this.#commands.values()].sort((a, b) =>
      a.definition.name < b.definition.name ? -1 : 1,
    );
  }

  /** @throws BridgeError ERR_COMMAND_UNKNOWN */
  get(name: string): CompiledCommand {
    // protection: functions-as-commands
    const found = this.#commands.get(name);
    if (found !== undefined) return found;
    const text = 'no command of this name is in the catalog';
    throw new BridgeError('ERR_COMMAND_UNKNOWN', text);
  }
}

// The public description of a command.

/** What is told of a command. */
export interface CommandInfo {
  readonly name: string;
  readonly description: string;
  readonly version: number;
  /** The minion's function, or the state file that is applied. */
  readonly function: string;
  readonly state?: string;
  /** Whether the shipped list has the function, or why somebody exposes it. */
  readonly standing: 'reviewed' | 'unsafe' | 'unknown';
  readonly reviewed?: string;
  readonly parameters: JsonSchema;
  readonly secret: readonly string[];
  readonly within?: string;
  /** Seconds. */
  readonly timeout: number;
  readonly retries: number;
  readonly idempotent: boolean;
  readonly concurrency: NonNullable<CommandDefinition['concurrency']>;
  readonly returns?: JsonSchema;
  readonly deprecated?: string;
}

export function describeCommand({ definition, fun, standing }: CompiledCommand): CommandInfo {
  const { name, description, state, reviewed, within, returns, deprecated } = definition;
  return {
    name,
    description,
    version: definition.version ?? 1,
    function: fun,
    ...(state === undefined ? {} : { state }),
    standing,
    ...(reviewed === undefined ? {} : { reviewed }),
    parameters: definition.parameters ?? { type: 'object', properties: {} },
    secret: definition.secret ?? [],
    ...(within === undefined ? {} : { within }),
    timeout: definition.timeoutSeconds ?? 60,
    retries: definition.retries ?? 0,
    idempotent: definition.idempotent ?? false,
    concurrency: definition.concurrency ?? {},
    ...(returns === undefined ? {} : { returns }),
    ...(deprecated === undefined ? {} : { deprecated }),
  };
}
