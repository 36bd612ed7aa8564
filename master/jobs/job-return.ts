import Type from 'typebox';
import { isWireMap, localField, unpackLocal, type WireValue } from '#minion-protocol';
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
