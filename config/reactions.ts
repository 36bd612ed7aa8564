/**
 * `saltbridge: reactions:`: parses reactions, and checks that all of them can be used before any
 * takes effect.
 */

import Type, { type TUnsafe } from 'typebox';
import { PolicyError, type PolicyRule, parseRate } from '#acl';
import {
  compileSchema,
  type SchemaMistake,
  schemaMistakes,
  unknownName,
  type ValuePath,
} from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { ConfigError, type ConfigErrorCode, type OptionOrigin } from './config-error.ts';
import type {
  CallValue,
  MappedValue,
  Reaction,
  ReactionAction,
  ReactionOptions,
  RunAction,
} from './reaction.ts';
import { custom } from './schema.ts';
import {
  isSettings,
  originOfPath,
  placeWithin,
  type Setting,
  settingsOf,
  toPlain,
} from './settings.ts';

// Reactions as configured.

/**
 * A reaction for `resolveMasterConfig({ reactions: […] })`. It may do only what rules of the policy
 * permit to the service `reaction:<name>`.
 */
export function reaction(name: string, options: ReactionOptions): Reaction {
  return {
    throttleSeconds: 0,
    throttleKey: [],
    maxConcurrent: 1,
    queue: 100,
    timeoutSeconds: 300,
    rate: '60/minute',
    ...options,
    name,
  };
}

/** The globs that a reaction waits for. */
export function globsOf({ on }: Pick<Reaction, 'on'>): readonly string[] {
  return typeof on === 'string' ? [on] : on;
}

/** What the policy knows a reaction as. */
export function serviceOf(name: string): { readonly kind: 'service'; readonly name: string } {
  return { kind: 'service', name: `reaction:${name}` };
}

/** Whether a value is taken from the event. */
export function isMapped(value: unknown): value is MappedValue {
  return typeof value === 'object' && value !== null && 'from' in value;
}

/** The values of a call, each with its place in words. */
export function valuesOf(action: ReactionAction): (readonly [field: string, value: CallValue])[] {
  if ('sls' in action) return [];
  if ('command' in action) {
    const { params = {} } = action.command;
    return Object.entries(params).map(([name, value]) => [`do.command.params.${name}`, value]);
  }
  const kind = 'run' in action ? 'run' : 'runner';
  const { args = [], kwargs = {} } = 'run' in action ? action.run : action.runner;
  return [
    ...args.map((value, place) => [`do.${kind}.args.${place}`, value] as const),
    ...Object.entries(kwargs).map(([name, value]) => [`do.${kind}.kwargs.${name}`, value] as const),
  ];
}

/** The ids that a job is for, where they are listed. */
function listedIds(action: ReactionAction): readonly (string | MappedValue)[] {
  const target = targetedOf(action)?.target;
  return typeof target === 'object' && 'list' in target ? target.list : [];
}

/** What has a target in an action, and under which name; `undefined` where nothing has. */
export function targetedOf(
  action: ReactionAction,
): (Pick<RunAction, 'target' | 'tgtType'> & { readonly kind: 'run' | 'command' }) | undefined {
  if ('run' in action) return { kind: 'run', ...action.run };
  return 'command' in action ? { kind: 'command', ...action.command } : undefined;
}

// Schema guarantees: whether a JSON Schema ensures a scalar at a path.

const scalars: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean']);

/**
 * The types that a value at a path may have, where the schema requires it to be there and to be
 * text, a number, or true or false; else `undefined`. Only `type`, `required`, `properties`, `enum`
 * and `const` are looked at, step by step.
 * @param path names of members from the top
 */
export function requiredTypes(
  schema: unknown,
  path: readonly string[],
): ReadonlySet<string> | undefined {
  const [name, ...rest] = path;
  if (!isMap(schema)) return undefined;
  if (name === undefined) return scalarTypes(schema);
  const { type, required, properties } = schema;
  // `required` says nothing of what is no object.
  if (type !== 'object' || !Array.isArray(required) || !required.includes(name)) return undefined;
  if (!isMap(properties) || !Object.hasOwn(properties, name)) return undefined;
  return requiredTypes(properties[name], rest);
}

function scalarTypes({
  type,
  enum: values,
  const: only,
}: Record<string, unknown>): ReadonlySet<string> | undefined {
  const listed = Array.isArray(values) ? values : only === undefined ? undefined : [only];
  const types = listed?.map((value: unknown) => typeof value) ?? [type].flat();
  if (types.length === 0 || !types.every((it) => scalars.has(it))) return undefined;
  return new Set(types.map((it) => (it === 'integer' ? 'number' : String(it))));
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// Parsing: the form of reactions is checked here, the rest later.

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const EventPath = Type.String({ pattern: '^(sender|data(\\.[^.]{1,256}){1,8})$' });
const Mapped = Type.Object({ from: EventPath, dash: Type.Optional(Type.Boolean()) }, strict);
const call = {
  fun: Text,
  args: Type.Optional(Type.Array(Type.Unknown(), { maxItems: 100 })),
  // Names with two underscores are Salt's own: `__kwarg__`, `__pub_jid`.
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

/** Fields in files, and the options of programs that they mean. YAML 1.1 reads the word `on` as true. */
const optionNames: ReadonlyMap<string, string> = new Map([
  ['true', 'on'],
  ['throttle', 'throttleSeconds'],
  ['throttle_key', 'throttleKey'],
  ['max_concurrent', 'maxConcurrent'],
  ['timeout', 'timeoutSeconds'],
]);
/** The same the other way round, for what errors name. */
const fieldNames: ReadonlyMap<string, string> = new Map(
  [...optionNames].filter(([field]) => field !== 'true').map(([field, option]) => [option, field]),
);

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** A reaction as it was given. */
interface GivenReaction {
  readonly name: string;
  /** Plain data, with the names of programs. */
  readonly value: unknown;
  /** Where it stands; of a program, with nothing in it. */
  readonly setting: Setting;
  /** Whether errors name the fields of files. */
  readonly isInFile: boolean;
}

/** What is wrong with a reaction; none for one of the right form. */
function formProblems({ name, value, setting, isInFile }: GivenReaction): readonly ConfigError[] {
  const { origin } = setting;
  // It is part of keys in the store, of the name of a subject, and of lines that people read.
  const isName = /^[^\p{C}]{1,100}$/u.test(name);
  const mistakes = schemaMistakes(reactionSchema, value);
  const foreign = isInFile ? foreignNames(setting) : [];
  const hasMistakes = mistakes.length > 0 || foreign.length > 0;
  return [
    ...(isName
      ? []
      : [refuse(origin, 'the name', 'expected 1 to 100 characters that can be printed')]),
    ...foreign,
    // Of one of the right form, this is told with what goes by other options.
    ...(hasMistakes ? rateProblems(value, setting) : []),
    ...mistakes.map((it) => mistakeToError(it, setting, isInFile)),
    ...(isMap(value) && isMap(value.do) && mistakes.every(({ path }) => path[0] !== 'do')
      ? actionProblems(value as unknown as ReactionOptions, setting) // the check has looked at it
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

/** The refusal of a part of a reaction, with the line of the nearest thing that is there. */
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

/** As it stands in files. */
function writtenName(step: string | number): string | number {
  return fieldNames.get(String(step)) ?? (step === 'tgtType' ? 'tgt_type' : step);
}

/** Names that only programs have, in a file. */
function foreignNames(setting: Setting): readonly ConfigError[] {
  return settingsOf(setting)
    .filter(([name]) => fieldNames.has(name))
    .map(([name]) => refuseField(setting, name, `in files this is ${fieldNames.get(name)}`));
}

function actionProblems(options: ReactionOptions, setting: Setting): readonly ConfigError[] {
  if (Object.keys(options.do).length !== 1) {
    return [refuseField(setting, 'do', 'expected one of run, runner and command')];
  }
  return hiddenValues(options).map((field) => {
    const expected = 'from: sender or data.name, alone or with dash: true, and not further inside';
    return refuseField(setting, field, `expected a value, or ${expected}`);
  });
}

/** The fields of a file as the options of a program; a field that files do not have is kept. */
function withProgramNames(value: unknown): unknown {
  if (!isMap(value)) return value;
  const renamed = new Map(
    Object.entries(value)
      // What only programs have is told by itself.
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

/** What looks like a value of the event is one, or an error: never passed on as it is. */
function hiddenValues({ do: action }: ReactionOptions): readonly string[] {
  return valuesOf(action)
    .filter(([, value]) => (isMapped(value) ? !mappedCheck.Check(value) : hides(value)))
    .map(([field]) => field);
}

function hides(value: unknown): boolean {
  if (Array.isArray(value)) return value.some((item) => isMapped(item) || hides(item));
  return isMap(value) && Object.values(value).some((item) => isMapped(item) || hides(item));
}

/** `90s`, `5m`, `1h`, `2d`; a number is seconds already. */
function secondsOf(value: unknown): unknown {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(String(value)) ?? [];
  return count === undefined ? value : Number(count) * (units[unit] ?? 1);
}

function refuse(origin: OptionOrigin, field: string, problem: string): ConfigError {
  const where = field === '' ? '' : `${field}: `;
  return new ConfigError('ERR_OPTION_TYPE', origin, `${where}${problem}`);
}

// Rules whose schemas guarantee the data that a reaction takes from an event.

/** A value of the event's data that a reaction needs. */
export interface NeededValue {
  /** Where it is used, in words. */
  readonly field: string;
  /** Names of members from the top of the data. */
  readonly path: readonly string[];
  /** Whether it may be text there. */
  readonly mayBeText: boolean;
}

/** What a reaction takes from the data of its event. */
export function neededValues({ do: action, throttleKey }: Reaction): NeededValue[] {
  const kind = targetedOf(action)?.kind;
  const values = [
    ...valuesOf(action),
    ...listedIds(action).map((value) => [`do.${kind}.target.list`, value] as const),
    ...throttleKey.map((from) => ['throttle_key', { from }] as const),
  ];
  return values.flatMap(([field, value]) => {
    if (!isMapped(value) || value.from === 'sender') return [];
    const mayBeText = !field.includes('.args.');
    return [{ field, path: pathOf(value.from), mayBeText }];
  });
}

/** `data.a.b` as its names. */
export function pathOf(from: string): readonly string[] {
  return from.split('.').slice(1);
}

/** Names of the rules for what a reaction waits for whose schema makes sure of all that is needed. */
export function schemaGuarantees(
  reaction: Pick<Reaction, 'on'>,
  needed: readonly NeededValue[],
  rules: readonly PolicyRule[],
): Set<string> {
  const signals = rules.flatMap((rule) =>
    rule.action === 'signal' && rule.effect === 'allow' ? [rule] : [],
  );
  const [good, bad] = [new Set<string>(), new Set<string>()];
  for (const { name, resource } of signals) {
    if (!globsOf(reaction).some((on) => mayMean(resource.tag, on))) continue;
    const isGood = needed.every((value) => isRequired(resource.schema, value));
    (isGood ? good : bad).add(name);
  }
  // Rules are told apart by name alone where one has decided.
  for (const name of bad) good.delete(name);
  return good;
}

function isRequired(schema: unknown, { path, mayBeText }: NeededValue): boolean {
  const types = requiredTypes(schema, path);
  return types !== undefined && (mayBeText || !types.has('string'));
}

/** Whether some tag of a rule may be one that is waited for. */
function mayMean(ruleTag: string, on: string): boolean {
  if (/[*?[]/.test(on)) return true;
  return compileGlob(ruleTag.replace(/\$\{[^}]*\}/g, '*'))(on);
}

const key = 'saltbridge:reactions';

/** A map of reactions by their names. */
export const reactions: TUnsafe<readonly Reaction[]> = custom<readonly Reaction[]>(
  {
    expected: 'a map of reactions by their names, each with on and do',
    accept: (value) => {
      const given = givenReactions(value);
      const isRight = given?.every((it) => formProblems(it).length === 0);
      return isRight === true ? given?.map(toReaction) : undefined;
    },
    explain: ({ value }) => (givenReactions(value) ?? []).flatMap(formProblems),
  },
  { type: 'object' },
);

/** From a file, or as `reaction` makes them. */
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

/** Of one that was looked at. */
function toReaction({ name, value, setting }: GivenReaction): Reaction {
  const { file, line } = setting.origin;
  const read = reaction(name, value as ReactionOptions); // the check has looked at every field
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
