/** Options under `saltbridge: reactions:`. Parses reactions and validates their form. */

import Type, { type TUnsafe } from 'typebox';
import { PolicyError, parseRate } from '#acl';
import {
  compileSchema,
  isMap,
  type SchemaMistake,
  schemaMistakes,
  unknownName,
  type ValuePath,
} from '#runtime';
import { ConfigError, type ConfigErrorCode, type OptionOrigin } from './config-error.ts';
import type { Reaction, ReactionOptions } from './reaction.ts';
import { isMapped, reaction, valuesOf } from './reaction-values.ts';
import { custom } from './schema.ts';
import {
  isSettings,
  originOfPath,
  placeWithin,
  type Setting,
  settingsOf,
  toPlain,
} from './settings.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const EventPath = Type.String({ pattern: '^(sender|data(\\.[^.]{1,256}){1,8})$' });
const Mapped = Type.Object({ from: EventPath, dash: Type.Optional(Type.Boolean()) }, strict);
const call = {
  fun: Text,
  args: Type.Optional(Type.Array(Type.Unknown(), { maxItems: 100 })),
  // Salt reserves names that begin with two underscores, such as `__kwarg__` and `__pub_jid`.
  kwargs: Type.Optional(
    Type.Record(Type.String({ pattern: '^(?!__)[A-Za-z_][A-Za-z0-9_]*$' }), Type.Unknown(), strict),
  ),
};
const Target = Type.Union([
  Text,
  Type.Object({ minion: Type.Literal('sender') }, strict),
  Type.Object({ list: Type.Array(Type.Union([Text, Mapped]), { minItems: 1 }) }, strict),
]);
const targeted = { target: Target, tgtType: Type.Optional(Text) };
const Run = Type.Object({ ...call, ...targeted }, strict);
const Params = Type.Record(Type.String({ pattern: '^(?!__).{1,256}$' }), Type.Unknown(), strict);
const Command = Type.Object({ name: Text, ...targeted, params: Type.Optional(Params) }, strict);
const reactionSchema = Type.Object(
  {
    on: Type.Union([Text, Type.Array(Text, { minItems: 1 })]),
    from: Type.Optional(Text),
    do: Type.Object(
      {
        run: Type.Optional(Run),
        runner: Type.Optional(Type.Object(call, strict)),
        command: Type.Optional(Command),
      },
      strict,
    ),
    throttleSeconds: Type.Optional(Type.Number({ minimum: 0, maximum: 31_536_000 })),
    throttleKey: Type.Optional(Type.Array(EventPath)),
    maxConcurrent: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
    queue: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
    timeoutSeconds: Type.Optional(Type.Number({ minimum: 1, maximum: 604_800 })),
    rate: Type.Optional(Text),
  },
  strict,
);
const mappedCheck = compileSchema(Mapped);

/**
 * Names of options in programs, by their names in files. The option `on` has the key `true` here,
 * because YAML 1.1 reads the word `on` as true.
 */
const optionNames: ReadonlyMap<string, string> = new Map([
  ['true', 'on'],
  ['throttle', 'throttleSeconds'],
  ['throttle_key', 'throttleKey'],
  ['max_concurrent', 'maxConcurrent'],
  ['timeout', 'timeoutSeconds'],
]);
/** Names of options in files, by their names in programs. Used in errors. */
const fieldNames: ReadonlyMap<string, string> = new Map(
  [...optionNames].filter(([field]) => field !== 'true').map(([field, option]) => [option, field]),
);

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Reaction before its validation. */
interface GivenReaction {
  readonly name: string;
  /**
   * Reaction as plain data. The names of its options are those in programs (`throttleSeconds`), not
   * those in files (`throttle`).
   */
  readonly value: unknown;
  /**
   * Setting that contains the reaction, with its location. The value of the setting is `undefined`
   * if the reaction is from a program instead of a file.
   */
  readonly setting: Setting;
  /** Whether errors use the names of options in files. */
  readonly isInFile: boolean;
}

/** Returns the mistakes in the structure of a reaction: its name, its fields and their types. */
function formProblems({ name, value, setting, isInFile }: GivenReaction): readonly ConfigError[] {
  const { origin } = setting;
  // The name becomes part of store keys, of the subject's name in the policy, and of messages.
  const isName = /^[^\p{C}]{1,100}$/u.test(name);
  const mistakes = schemaMistakes(reactionSchema, value);
  const foreign = isInFile ? foreignNames(setting) : [];
  const hasMistakes = mistakes.length > 0 || foreign.length > 0;
  return [
    ...(isName ? [] : [refuse(origin, 'the name', 'expected 1 to 100 printable characters')]),
    ...foreign,
    // For a reaction with a valid form, `reaction-problems.ts` reports this mistake.
    ...(hasMistakes ? rateProblems(value, setting) : []),
    ...mistakes.map((it) => mistakeToError(it, setting, isInFile)),
    ...(isMap(value) && isMap(value.do) && mistakes.every(({ path }) => path[0] !== 'do')
      ? actionProblems(value as unknown as ReactionOptions, setting) // the schema has validated it
      : []),
  ];
}

function rateProblems(value: unknown, setting: Setting): readonly ConfigError[] {
  const rate = isMap(value) ? value.rate : undefined;
  const problem = typeof rate === 'string' ? rateProblem(rate) : undefined;
  return problem === undefined ? [] : [refuseField(setting, 'rate', problem.replace('rate: ', ''))];
}

function mistakeToError(
  { path, problem, isUnknown }: SchemaMistake,
  setting: Setting,
  isInFile: boolean,
): ConfigError {
  const written = isInFile ? path.map(writtenName) : path;
  const field = written.join('.');
  // YAML 1.1 reads the word `on` as true.
  const place = isInFile && written[0] === 'on' ? ['true', ...written.slice(1)] : written;
  if (!isUnknown) return refuseField(setting, field, problem, place);
  if (path.length > 1) return refuseField(setting, field, problem, place);
  const known = Object.keys(reactionSchema.properties);
  const names = known.map((name) => String(isInFile ? writtenName(name) : name));
  return refuseField(setting, field, `there is no such key; ${unknownName(field, names)}`, place);
}

/**
 * Returns the error for a part of a reaction. The error states the location of this part, or of the
 * nearest part that exists.
 */
function refuseField(
  setting: Setting,
  field: string,
  problem: string,
  place: ValuePath = field.split('.'),
  code: ConfigErrorCode = 'ERR_OPTION_TYPE',
): ConfigError {
  const { file, line } = placeWithin(setting, place);
  const part = originOfPath(setting.origin, place);
  const text = field === '' ? problem : `${field}: ${problem}`;
  return new ConfigError(code, { ...setting.origin, file, line }, text, { part });
}

/** Returns the name that a field has in configuration files. */
function writtenName(step: string | number): string | number {
  return fieldNames.get(String(step)) ?? (step === 'tgtType' ? 'tgt_type' : step);
}

/**
 * Returns an error for each option that a configuration file sets under a name that is valid only
 * in programs.
 */
function foreignNames(setting: Setting): readonly ConfigError[] {
  return settingsOf(setting)
    .filter(([name]) => fieldNames.has(name))
    .map(([name]) =>
      refuseField(setting, name, `in files, the name of this field is ${fieldNames.get(name)}`),
    );
}

function actionProblems(options: ReactionOptions, setting: Setting): readonly ConfigError[] {
  if (Object.keys(options.do).length !== 1) {
    return [refuseField(setting, 'do', 'expected one of run, runner and command')];
  }
  return hiddenValues(options).map((field) => {
    const expected =
      'a map with `from` (sender or data.NAME) and optionally `dash: true`; this map must not be nested in another value';
    return refuseField(setting, field, `expected a value, or ${expected}`);
  });
}

/**
 * Converts the names of options in a file to their names in programs. Unknown options are
 * unchanged.
 */
function withProgramNames(value: unknown): unknown {
  if (!isMap(value)) return value;
  const renamed = new Map(
    Object.entries(value)
      // Omit options with their names in programs; `foreignNames` reports them.
      .filter(([name]) => !fieldNames.has(name))
      .map(([name, field]) => [optionNames.get(name) ?? name, field]),
  );
  const throttleSeconds = renamed.get('throttleSeconds');
  if (throttleSeconds !== undefined) renamed.set('throttleSeconds', secondsOf(throttleSeconds));
  const throttleKey = renamed.get('throttleKey');
  if (typeof throttleKey === 'string') renamed.set('throttleKey', [throttleKey]);
  const action = renamed.get('do');
  if (isMap(action)) {
    const fields = Object.entries(action).map(([kind, call]) => [kind, withTargetType(call)]);
    renamed.set('do', Object.fromEntries(fields));
  }
  return Object.fromEntries(renamed);
}

function withTargetType(call: unknown): unknown {
  if (!isMap(call) || call.tgt_type === undefined) return call;
  const { tgt_type: tgtType, ...rest } = call;
  return { ...rest, tgtType };
}

/**
 * Returns the fields with values that look like references to the event but are invalid. Without
 * this check, the action would use these values literally.
 */
function hiddenValues({ do: action }: ReactionOptions): readonly string[] {
  return valuesOf(action)
    .filter(([, value]) => (isMapped(value) ? !mappedCheck.Check(value) : hides(value)))
    .map(([field]) => field);
}

function hides(value: unknown): boolean {
  if (Array.isArray(value)) return value.some((item) => isMapped(item) || hides(item));
  return isMap(value) && Object.values(value).some((item) => isMapped(item) || hides(item));
}

/**
 * Converts a duration such as `90s`, `5m`, `1h` or `2d` to seconds. Returns other values unchanged.
 */
function secondsOf(value: unknown): unknown {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(String(value)) ?? [];
  return count === undefined ? value : Number(count) * (units[unit] ?? 1);
}

function refuse(origin: OptionOrigin, field: string, problem: string): ConfigError {
  const where = field === '' ? '' : `${field}: `;
  return new ConfigError('ERR_OPTION_TYPE', origin, `${where}${problem}`);
}

const key = 'saltbridge:reactions';

/** Schema of reactions: a map by name. */
export const reactions: TUnsafe<readonly Reaction[]> = custom<readonly Reaction[]>(
  {
    expected: 'a map of reactions by name, each with on and do',
    accept: (value) => {
      const given = givenReactions(value);
      const isRight = given?.every((it) => formProblems(it).length === 0);
      return isRight === true ? given?.map(toReaction) : undefined;
    },
    explain: ({ value }) => (givenReactions(value) ?? []).flatMap(formProblems),
  },
  { type: 'object' },
);

/**
 * Returns the reactions in a parsed file, or in a list of results of {@link reaction}. Returns
 * `undefined` for other values.
 */
function givenReactions(value: unknown): readonly GivenReaction[] | undefined {
  if (isSettings(value)) {
    return Array.from(value, ([name, setting]) => {
      const written = withProgramNames(toPlain(setting.value));
      return { name, value: written, setting, isInFile: true };
    });
  }
  if (!Array.isArray(value)) return undefined;
  return value.map((given: unknown) => {
    const { name = '', ...options } = isMap(given) ? given : {};
    const origin = originOf({ name: String(name) });
    return {
      name: String(name),
      value: options,
      setting: { value: undefined, origin },
      isInFile: false,
    };
  });
}

/** Converts a reaction of valid form, and fills in its defaults. */
function toReaction({ name, value, setting }: GivenReaction): Reaction {
  const { file, line } = setting.origin;
  const read = reaction(name, value as ReactionOptions); // every field has been validated
  return line === 0 ? read : { ...read, origin: { file, line } };
}

export function rateProblem(rate: string): string | undefined {
  try {
    parseRate(rate, '');
    return undefined;
  } catch (error) {
    if (error instanceof PolicyError) return `rate: ${error.problem}`;
    throw error;
  }
}

export function originOf({ name, origin }: Pick<Reaction, 'name' | 'origin'>): OptionOrigin {
  return { file: 'options', line: 0, ...origin, key: `${key}:${name}` };
}
