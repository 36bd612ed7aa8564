/** Fields of commands: validates them, and describes them for /openapi.json. */

import Type, { type TSchema } from 'typebox';
import type { WireMap, WireValue } from '#minion-protocol';
import { compileSchema } from '#runtime';
import { SaltApiError } from './errors.ts';
import type { Lowstate } from './lowstate.ts';

const Anything = Type.Optional(Type.Unsafe<WireValue>(Type.Unknown()));
const Keywords = Type.Unsafe<WireMap>(Type.Object({}));
/** Clients send `null` where they mean nothing. */
const Text = Type.Optional(Type.Union([Type.String(), Type.Null()]));
const Seconds = Type.Optional(
  Type.Union([Type.Number({ minimum: 0, maximum: 86_400 }), Type.String(), Type.Null()]),
);
const Count = Type.Optional(Type.Union([Type.Integer({ minimum: 1 }), Type.String(), Type.Null()]));
const Names = Type.Union([Type.String(), Type.Array(Type.String())]);
const kwarg = Type.Optional(Type.Union([Keywords, Type.Null()]));

const minionFields = {
  tgt: Names,
  tgt_type: Text,
  fun: Names,
  arg: Anything,
  kwarg,
  full_return: Anything,
  timeout: Seconds,
  gather_job_timeout: Seconds,
  ret: Text,
  jid: Text,
  delimiter: Text,
  metadata: Anything,
};

const Local = Type.Object(minionFields);
const Batch = Type.Object({
  ...minionFields,
  batch: Type.Union([Type.Integer({ minimum: 1 }), Type.String()]),
  batch_wait: Seconds,
  failhard: Anything,
});
const Subset = Type.Object({ ...minionFields, subset: Count, sub: Count });
const OfMaster = Type.Object({
  fun: Type.String(),
  arg: Anything,
  kwarg,
  full_return: Anything,
  timeout: Seconds,
});

/** Fields of a command for minions. */
export interface LocalForm {
  readonly tgt: string | string[];
  readonly fun: string | string[];
  readonly tgt_type?: string | null;
  readonly ret?: string | null;
  readonly jid?: string | null;
  readonly delimiter?: string | null;
}

/** Fields of one that goes to some minions at a time. */
export interface BatchForm extends LocalForm {
  readonly batch: number | string;
  readonly failhard?: WireValue;
}

/** Fields of one for a few of the minions. */
export interface SubsetForm extends LocalForm {
  readonly subset?: number | string | null;
  readonly sub?: number | string | null;
}

/** Fields of a runner or a wheel function; the others are its keywords. */
export interface MasterForm {
  readonly fun: string;
}

/** Checks that are compiled once. @throws SaltApiError ERR_HTTP_FIELDS */
type Check<T> = (low: Lowstate) => Lowstate & T;

export const localForm: Check<LocalForm> = checked(Local, ['tgt', 'fun']);
export const batchForm: Check<BatchForm> = checked(Batch, ['tgt', 'fun', 'batch']);
export const subsetForm: Check<SubsetForm> = checked(Subset, ['tgt', 'fun']);
export const masterForm: Check<MasterForm> = checked(OfMaster, ['fun']);

/** Schemas of commands, by the clients that take them. */
export const commandSchemas: ReadonlyMap<string, TSchema> = new Map<string, TSchema>([
  ['local', Local],
  ['local_async', Local],
  ['local_batch', Batch],
  ['local_subset', Subset],
  ['runner', OfMaster],
  ['runner_async', OfMaster],
  ['wheel', OfMaster],
  ['wheel_async', OfMaster],
]);

/** What fields have to be, where a schema's own words say it badly. */
const expectedForms: ReadonlyMap<string, string> = new Map([
  ['tgt', 'a text or a list of texts'],
  ['tgt_type', 'a text'],
  ['fun', 'the name of a function, or a list of names'],
  ['kwarg', 'a map'],
  ['batch', 'a number of minions, or a percentage as text'],
  ['batch_wait', 'a number of seconds up to a day'],
  ['timeout', 'a number of seconds up to a day'],
  ['gather_job_timeout', 'a number of seconds up to a day'],
  ['subset', 'a number of minions'],
  ['sub', 'a number of minions'],
]);

/** @param required those that are asked for before any other is looked at */
function checked<T>(schema: TSchema, required: readonly string[]): Check<T> {
  const validator = compileSchema(schema);
  return (low) => {
    for (const name of required) {
      const value = low[name];
      if (value === undefined || value === null || value === '') throw refused(name);
    }
    if (validator.Check(low)) return low as Lowstate & T; // what the schema says
    const [first] = validator.Errors(low);
    throw refused(first?.instancePath.split('/')[1] ?? '', first?.message);
  };
}

/** @param said - by the schema */
function refused(name: string, said = 'must be another value'): SaltApiError {
  const expected = expectedForms.get(name);
  const problem = expected === undefined ? said : `expected ${expected}`;
  return new SaltApiError('ERR_HTTP_FIELDS', `${name === '' ? 'command' : name}: ${problem}`);
}
