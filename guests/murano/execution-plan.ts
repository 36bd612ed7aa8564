/**
 * Parses execution plans of Murano, in the formats 2.0 to 2.2. Code in an execution plan is never
 * executed. Its `Body` must be a single call of a script. All other bodies are rejected with the
 * error code of murano-agent.
 */

import { BridgeError, isPlainMap } from '#heat-bridge';
import { JsonError, type ReadingStep, readJsonInSteps, writeJson } from '#runtime';
import { jsonNumber } from '#template/python/json.ts';
import { isNestedDeeper } from '../config-json.ts';

/** Error codes of results [murano-agent common/messaging]. */
export const errorCodes = { failure: 1, malformed: 2, version: 9, script: 100 } as const;

/** Error for a rejected execution plan. The result contains its message and error code. */
export class ExecutionPlanError extends Error {
  readonly errorCode: number;
  readonly additionalInfo: unknown;

  constructor(errorCode: number, message: string, additionalInfo: unknown = null) {
    super(message);
    this.errorCode = errorCode;
    this.additionalInfo = additionalInfo;
  }
}

/**
 * Field of the script's result that the body of an execution plan returns. If a body selects no
 * field, it returns all of them.
 */
type ResultMember = 'exitCode' | 'stderr' | 'stdout';

/**
 * The single argument of a script call in the body of an execution plan: a parameter, or a text
 * that may contain parameters.
 */
type CallArgument =
  | { readonly parameter: string }
  /** A text that is joined from pieces. Each piece is text or the value of a parameter. */
  | { readonly parts: readonly (string | { readonly parameter: string })[] };

/** Call of a script: the only statement in the body of an execution plan. */
export interface ScriptCall {
  /** Name of the script. */
  readonly name: string;
  readonly type: string;
  /**
   * Entry point of the script. For the type `Application`, the name of a file. For other types,
   * text such as `cookbook::recipe`.
   */
  readonly entryPoint: string;
  /**
   * Content of the file that `entryPoint` names. `undefined` if `entryPoint` is not the name of a
   * file.
   */
  readonly source: Buffer | undefined;
  readonly argument: CallArgument | undefined;
  readonly member: ResultMember | undefined;
  readonly options: {
    readonly captureStdout: boolean;
    readonly captureStderr: boolean;
    readonly verifyExitcode: boolean;
  };
}

export interface ExecutionPlan {
  readonly id: string;
  /**
   * Stamp: an increasing number that prevents a replay. `undefined` if the stamp is not checked.
   */
  readonly stamp: number | undefined;
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Call of a script in the plan's `Body`. `undefined` if the body calls no script. */
  readonly call: ScriptCall | undefined;
}

/** Maximum nesting of lists and maps, in levels. */
const maxDepth = 64;

/**
 * Maximum number of values. A plan with many small values takes far more memory than its text, and
 * the plan is in memory as long as it waits for its guest.
 */
const maxValues = 10_000;

type JsonMap = Readonly<Record<string, unknown>>;

/**
 * Parses the JSON object of an execution plan, and its id, in steps.
 * @returns `undefined` if there is no id, because a result without an id cannot be sent
 * @throws BridgeError ERR_COMMAND_PARAMETERS if it has too many values or levels
 */
export function* readExecutionPlan(
  text: string,
  messageId: string | undefined,
): Generator<ReadingStep, { readonly id: string; readonly given: JsonMap } | undefined, void> {
  const given = yield* readPlanJson(text);
  const named = isPlainMap(given) ? (given.ID ?? messageId) : messageId;
  const id = typeof named === 'string' && named !== '' && named.length <= 255 ? named : undefined;
  return id === undefined ? undefined : { id, given: isPlainMap(given) ? given : {} };
}

/** Parses the JSON of an execution plan in steps. Returns `undefined` if it is not JSON. */
function* readPlanJson(text: string): Generator<ReadingStep, unknown, void> {
  try {
    return yield* readJsonInSteps(text, { maxValues, readNumber: jsonNumber });
  } catch (cause) {
    if (!(cause instanceof JsonError) || cause.reason !== 'limit') return undefined;
    const problem = `the execution plan is too large: it has ${cause.message}; send a smaller one`;
    throw new BridgeError('ERR_COMMAND_PARAMETERS', problem, { cause });
  }
}

/**
 * Parses an execution plan.
 * @throws ExecutionPlanError
 */
export function parseExecutionPlan(id: string, given: JsonMap): ExecutionPlan {
  if (isNestedDeeper(given, maxDepth))
    throw malformed(`the execution plan has more than ${maxDepth} levels`);
  const version = requireVersion(given.FormatVersion ?? '1.0.0');
  const scripts = requireSection(given, 'Scripts');
  const files = requireSection(given, 'Files');
  for (const script of Object.values(scripts)) checkScript(script, version);
  for (const file of Object.values(files)) checkFile(file);
  const { Stamp: stamp, Parameters: parameters = {} } = given;
  if (!isPlainMap(parameters)) throw malformed('Parameters of the execution plan is not an object');
  const isStamped = typeof stamp === 'number' && Number.isSafeInteger(stamp) && stamp >= 0;
  return {
    id,
    stamp: isStamped ? stamp : undefined,
    parameters,
    call: parseBody(given.Body, scripts, files),
  };
}

function malformed(message: string): ExecutionPlanError {
  return new ExecutionPlanError(errorCodes.malformed, message);
}

type Version = readonly [number, number, number];
const newest: Version = [2, 2, 0];

function requireVersion(given: unknown): Version {
  const [, ...parts] = /^(\d{1,4})\.(\d{1,4})\.(\d{1,4})$/.exec(shown(given)) ?? [];
  const [major = 0, minor = 0, patch = 0] = parts.map(Number);
  const version: Version = [major, minor, patch];
  if (parts.length === 3 && major === 2 && compare(version, newest) <= 0) return version;
  throw new ExecutionPlanError(
    errorCodes.version,
    `Unsupported format version ${shown(given)}: 2.0.0 to 2.2.0 are supported`,
  );
}

function compare(a: Version, b: Version): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
}

function requireSection(given: JsonMap, name: string): JsonMap {
  const section = given[name];
  if (section === undefined || section === null) {
    throw malformed(`${name} is not in the execution plan`);
  }
  if (isPlainMap(section)) return section;
  throw malformed(`${name} is not an object`);
}

const typesSince21 = ['Chef', 'Puppet'];
const berkshelfOptions = ['useBerkshelf', 'berksfilePath'];

function checkScript(script: unknown, version: Version): void {
  if (!isPlainMap(script)) throw malformed('a script is not an object');
  const { Type: type, EntryPoint: entryPoint, Options: options } = script;
  const isOld = compare(version, [2, 1, 0]) < 0;
  const text = version.join('.');
  const isRecipe = typesSince21.some((it) => it === type);
  if (type !== 'Application' && (isOld || !isRecipe)) {
    throw malformed(`Type ${shown(type)} is not valid for format ${text}`);
  }
  if (typeof entryPoint !== 'string') throw malformed('a script has no EntryPoint');
  if (isRecipe && !entryPoint.includes('::')) {
    const point = shown(entryPoint);
    throw malformed(`Wrong EntryPoint ${point} for Puppet/Chef executors. :: needed`);
  }
  if (isOld) return;
  if (options === undefined) throw new ExecutionPlanError(errorCodes.failure, "'Options'");
  if (!isPlainMap(options)) throw malformed('Options is not an object');
  const berkshelf = berkshelfOptions.find((it) => Object.hasOwn(options, it));
  if (berkshelf === undefined) return;
  if (compare(version, [2, 2, 0]) < 0) {
    throw malformed(`Script has an option ${berkshelf} invalid for version ${text}`);
  }
  if (options.useBerkshelf === true) throw malformed('Berkshelf is not supported');
}

/**
 * Checks a file. Downloadable files are rejected, because the operator cannot review their
 * content.
 */
function checkFile(file: unknown): void {
  if (!isPlainMap(file)) throw malformed('a file is not an object');
  if (file.Type === 'Downloadable' || file.URL !== undefined) {
    throw malformed('files of the type Downloadable are not supported');
  }
}

function shown(value: unknown): string {
  // JSON objects with a member `toString` cannot be converted to text.
  const text = typeof value === 'object' ? writeJson(value) : String(value);
  return text.slice(0, 64);
}

/**
 * Matches an accepted body: a single call of a script, with at most one field of its result, for
 * example `return deploy(args).stdout`.
 */
const bodyForm =
  /^return ([A-Za-z_][A-Za-z0-9_]{0,127})\(([^\n]{0,8192})\)(?:\.(stdout|stderr|exitCode))?\n?$/;
const parameterForm = /^args\.([A-Za-z_][A-Za-z0-9_]{0,127})$/;
const textForm =
  /^(?:'([^'\\\n]{0,4096})'|"([^"\\\n]{0,4096})")(?:\.format\(([^()'"]{0,4096})\))?$/;
/** Fields and escaped braces in a Python format string. A field may contain a number. */
const placeForm = /\{\{|\}\}|\{(\d{0,3})\}|[{}]/g;
const emptyBody = /^return\n?$/;

function parseBody(body: unknown, scripts: JsonMap, files: JsonMap): ScriptCall | undefined {
  if (typeof body !== 'string') throw malformed('Body is not text');
  if (emptyBody.test(body)) return undefined;
  const [, name, given = '', member] = bodyForm.exec(body) ?? [];
  const argument = name === undefined ? undefined : parseArgument(given.trim());
  if (name === undefined || argument === undefined) {
    throw malformed(
      'Body must be "return NAME(ARGUMENT)", optionally followed by .stdout, .stderr or .exitCode; ARGUMENT must be empty, args, args.PARAMETER, quoted text, or quoted text with .format(args.PARAMETER, ...)',
    );
  }
  const script = Object.hasOwn(scripts, name) ? scripts[name] : undefined;
  if (!isPlainMap(script)) throw malformed(`Body calls ${name}, which is not in Scripts`);
  const { Type: type, EntryPoint: entryPoint, Options: options = {} } = script;
  const isTrue = (key: string): boolean => !isPlainMap(options) || options[key] !== false;
  return {
    name,
    type: String(type),
    ...(type === 'Application'
      ? fileOf(String(entryPoint), files)
      : { entryPoint: String(entryPoint), source: undefined }),
    argument: argument === 'none' ? undefined : argument,
    member: resultMembers.find((it) => it === member),
    options: {
      captureStdout: isTrue('captureStdout'),
      captureStderr: isTrue('captureStderr'),
      verifyExitcode: isTrue('verifyExitcode'),
    },
  };
}

/**
 * Parses the argument of a script call.
 * @returns `'none'` if the call has no argument or the argument `args`; `undefined` if the argument
 * has an unsupported form
 */
function parseArgument(given: string): CallArgument | 'none' | undefined {
  // The command receives all parameters, with or without this argument.
  if (given === '' || given === 'args') return 'none';
  const [, parameter] = parameterForm.exec(given) ?? [];
  if (parameter !== undefined) return { parameter };
  const [, single, double, list] = textForm.exec(given) ?? [];
  const text = single ?? double;
  if (text === undefined) return undefined;
  return list === undefined ? { parts: [text] } : parseFormat(text, list);
}

/**
 * Parses an argument such as `'{0} {1}'.format(args.a, args.b)`.
 * @param text - text in quotes
 * @param list - arguments of `format`
 * @returns `undefined` if a field is invalid, or refers to no parameter
 */
function parseFormat(text: string, list: string): CallArgument | undefined {
  const names = list.split(',').map((it) => parameterForm.exec(it.trim())?.[1]);
  const parts: (string | { readonly parameter: string })[] = [];
  let end = 0;
  let next = 0;
  for (const place of text.matchAll(placeForm)) {
    const [all, number] = place;
    parts.push(text.slice(end, place.index));
    end = place.index + all.length;
    if (all === '{{' || all === '}}') {
      parts.push(all.slice(1));
      continue;
    }
    if (number === undefined) return undefined;
    const parameter = names[number === '' ? next : Number(number)];
    next += 1;
    if (parameter === undefined) return undefined;
    parts.push({ parameter });
  }
  parts.push(text.slice(end));
  return { parts: parts.filter((it) => it !== '') };
}

const resultMembers: readonly ResultMember[] = ['exitCode', 'stderr', 'stdout'];

function fileOf(id: string, files: JsonMap): Pick<ScriptCall, 'entryPoint' | 'source'> {
  const file = Object.hasOwn(files, id) ? files[id] : undefined;
  if (!isPlainMap(file) || typeof file.Name !== 'string' || typeof file.Body !== 'string') {
    throw malformed(`EntryPoint ${shown(id)} is not in Files`);
  }
  const encoding = file.BodyType === 'Base64' ? 'base64' : 'utf8';
  return { entryPoint: file.Name, source: Buffer.from(file.Body, encoding) };
}
