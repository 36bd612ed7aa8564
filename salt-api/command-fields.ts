/** Fields of commands. Validates them, and provides their schemas for /openapi.json. */

import Type, { type TSchema } from 'typebox';
import type { WireMap, WireValue } from '#minion-protocol';
import { compileSchema } from '#runtime';
import { SaltApiError } from './errors.ts';
import type { Lowstate } from './lowstate.ts';

const Anything = Type.Optional(Type.Unsafe<WireValue>(Type.Unknown()));
const Keywords = Type.Unsafe<WireMap>(Type.Object({}));
/** Optional text. Clients may send `null` for a field that is not set. */
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

/** Fields of a command that runs on minions. */
export interface LocalForm {
  readonly tgt: string | string[];
  readonly fun: string | string[];
  readonly tgt_type?: string | null;
  readonly ret?: string | null;
  readonly jid?: string | null;
  readonly delimiter?: string | null;
}

/** Fields of a command that runs in batches. */
export interface BatchForm extends LocalForm {
  readonly batch: number | string;
  readonly failhard?: WireValue;
}

/** Fields of a command that runs on only some of the targeted minions. */
export interface SubsetForm extends LocalForm {
  readonly subset?: number | string | null;
  readonly sub?: number | string | null;
}

/** Fields of a call of a runner or wheel function. Other fields are its keyword arguments. */
export interface MasterForm {
  readonly fun: string;
}

/**
 * Function that validates the fields of a command.
 * @throws SaltApiError ERR_HTTP_FIELDS
 */
type Check<T> = (low: Lowstate) => Lowstate & T;

export const localForm: Check<LocalForm> = checked(Local, ['tgt', 'fun']);
export const batchForm: Check<BatchForm> = checked(Batch, ['tgt', 'fun', 'batch']);
export const subsetForm: Check<SubsetForm> = checked(Subset, ['tgt', 'fun']);
export const masterForm: Check<MasterForm> = checked(OfMaster, ['fun']);

/** Schemas of commands by client. */
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

/** Descriptions of valid values, for fields whose schema would cause an unclear error message. */
const expectedForms: ReadonlyMap<string, string> = new Map([
  ['tgt', 'a text or a list of texts'],
  ['tgt_type', 'a text'],
  ['fun', 'the name of a function, or a list of names'],
  ['kwarg', 'a map'],
  ['batch', 'a number of minions, or a percentage as text'],
  ['batch_wait', 'a number of seconds, at most 86400'],
  ['timeout', 'a number of seconds, at most 86400'],
  ['gather_job_timeout', 'a number of seconds, at most 86400'],
  ['subset', 'a number of minions'],
  ['sub', 'a number of minions'],
]);

/**
 * Creates a validator from a schema.
 * @param required - fields whose presence is checked first
 */
function checked<T>(schema: TSchema, required: readonly string[]): Check<T> {
  const validator = compileSchema(schema);
  return (low) => {
    for (const name of required) {
      const value = low[name];
      if (value === undefined || value === null || value === '') throw refused(name);
    }
    if (validator.Check(low)) return low as Lowstate & T; // the schema has validated it
    const [first] = validator.Errors(low);
    throw refused(first?.instancePath.split('/')[1] ?? '', first?.message);
  };
}

/**
 * Returns the error for an invalid field.
 * @param name - name of the field; empty if the whole command is invalid
 * @param said - reason that the schema validator reports
 */
function refused(name: string, said = 'has an invalid value'): SaltApiError {
  const expected = expectedForms.get(name);
  const problem = expected === undefined ? said : `must be ${expected}`;
  return new SaltApiError('ERR_HTTP_FIELDS', `${name === '' ? 'command' : name}: ${problem}`);
}
