import Type from 'typebox';
import { isWireMap, localField, unpackLocal, type WireValue } from '#minion-protocol';
import { isLargerThan } from '#runtime';
import { defineRow, type RowCodec, Texts } from '#store';
import type { JobReturn } from '../api/index.ts';

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());

/** Codec of the rows `returns/<jid>/<minion>` and `returns/<jid>/<minion>/<resource>`. */
export const returnRow: RowCodec<JobReturn> = defineRow({
  name: 'return',
  schema: Type.Object({
    minion: Type.String(),
    resource: Type.Optional(Type.String()),
    fun: Type.Union([Type.String(), Texts]),
    return: AnyValue,
    retcode: AnyValue,
    success: AnyValue,
    out: Type.Optional(Type.String()),
    receivedAt: Type.Number(),
    notStored: Type.Optional(Type.Literal(true)),
  }),
  packed: { return: localField, retcode: localField, success: localField },
  unversioned: unpackLocal,
});

/**
 * Returns the id that is displayed with a return: the id of the resource if there is one, else the
 * id of the minion.
 */
export function returnerOf({ minion, resource }: Pick<JobReturn, 'minion' | 'resource'>): string {
  return resource ?? minion;
}

/**
 * Whether the `retcode` of a return means a failure: any value except 0, `false` and `null`. A job
 * of several functions has a map of such values, and fails if one of them means a failure [salt
 * cli/salt.py _get_retcode].
 */
export function isFailureCode(retcode: WireValue): boolean {
  if (retcode instanceof Map) return [...retcode.values()].some(isFailureCode);
  if (isWireMap(retcode)) return Object.values(retcode).some(isFailureCode);
  return retcode !== 0 && retcode !== false && retcode !== null;
}

/**
 * Value that is stored in place of the value of a return, if the user who started the job or the
 * minion has no space for it.
 */
const notStored =
  'This return was not stored: the stored returns of the user who started the job, or of this minion to jobs of this user, use their whole share (saltbridge: limits: stored_return_bytes).';

/** Maximum size of the other fields that are stored with {@link notStored}. */
const smallField = { values: 16, characters: 128 };

/**
 * Returns a copy of a return with a notice instead of its value. The encoded copy has a limited
 * size: large other fields are replaced too.
 */
export function withoutValue(result: JobReturn): JobReturn {
  const { retcode, success } = result;
  return {
    ...result,
    fun: shortFunction(result.fun),
    return: notStored,
    retcode: isLargerThan(retcode, smallField) ? Number(isFailureCode(retcode)) : retcode,
    success: isLargerThan(success, smallField) ? !isFailureCode(retcode) : success,
    out: 'nested',
    notStored: true,
  };
}

/** Returns the same name or names of functions, or a replacement if they are large. */
export function shortFunction(fun: JobReturn['fun']): JobReturn['fun'] {
  return isLargerThan(fun, smallField) ? 'VALUE_TRIMMED' : fun;
}
