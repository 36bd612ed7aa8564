/** Reactions as they come from a file or a program: their form is checked here, the rest later. */
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import { ConfigError, type OptionOrigin } from '../config/errors.ts';
import { isMapped, type Reaction, type ReactionOptions, reaction, valuesOf } from './reaction.ts';
import { isMap } from './required-value.ts';

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
const check = Compile(
  Type.Object(
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
      oncePer: Type.Optional(Type.Number({ minimum: 0, maximum: 31_536_000 })),
      onceBy: Type.Optional(Type.Array(EventPath)),
      atOnce: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
      queue: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
      timeout: Type.Optional(Type.Number({ minimum: 1, maximum: 604_800 })),
      rate: Type.Optional(Text),
    },
    strict,
  ),
);
const mappedCheck = Compile(Mapped);

/** Names in files, and what they are in programs. YAML 1.1 reads the word `on` as true. */
const names: ReadonlyMap<string, string> = new Map([
  ['true', 'on'],
  ['once_per', 'oncePer'],
  ['once_by', 'onceBy'],
  ['at_once', 'atOnce'],
]);

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/**
 * Reads one reaction.
 * @param value plain data, with the names of programs
 * @throws ConfigError ERR_OPTION_TYPE
 */
export function parseReaction(name: string, value: unknown, origin: OptionOrigin): Reaction {
  // It is part of keys in the store, of the name of a subject, and of lines that people read.
  if (!/^[^\p{C}]{1,100}$/u.test(name)) {
    throw refuse(origin, 'the name', 'expected 1 to 100 characters that can be printed');
  }
  const [problem] = check.Errors(value);
  if (problem !== undefined) {
    const field = problem.instancePath.slice(1).replaceAll('/', '.');
    // What no schema describes is measured against the schema `false`.
    throw refuse(
      origin,
      field,
      problem.keyword === 'boolean' ? 'reactions have no such field' : problem.message,
    );
  }
  const options = value as ReactionOptions; // the check has looked at every field of it
  if (Object.keys(options.do).length !== 1) {
    throw refuse(origin, 'do', 'expected one of run, runner and command');
  }
  refuseHidden(options, origin);
  const { file, line } = origin;
  const read = reaction(name, options);
  return line === 0 ? read : { ...read, origin: { file, line } };
}

/** The names of files as those of programs. */
export function withProgramNames(value: unknown): unknown {
  if (!isMap(value)) return value;
  const renamed = new Map(
    Object.entries(value).map(([name, field]) => [names.get(name) ?? name, field]),
  );
  const oncePer = renamed.get('oncePer');
  if (oncePer !== undefined) renamed.set('oncePer', secondsOf(oncePer));
  const onceBy = renamed.get('onceBy');
  if (typeof onceBy === 'string') renamed.set('onceBy', [onceBy]);
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
function refuseHidden({ do: action }: ReactionOptions, origin: OptionOrigin): void {
  for (const [field, value] of valuesOf(action)) {
    if (isMapped(value) ? !mappedCheck.Check(value) : hides(value)) {
      const expected =
        'from: sender or data.name, alone or with dash: true, and not further inside';
      throw refuse(origin, field, `expected a value, or ${expected}`);
    }
  }
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
