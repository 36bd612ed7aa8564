import Type from 'typebox';
import { isWireMap, localField, unpackLocal, type WireValue } from '#minion-protocol';
import { defineRow, type RowCodec, Texts } from '#store';
import type { JobReturn } from '../api/index.ts';

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());

/** Row codec for `returns/<jid>/<minion>` and `returns/<jid>/<minion>/<resource>`. */
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

/** Returns the id under which a result is shown: the minion's, or that of its resource. */
export function returnerOf({ minion, resource }: Pick<JobReturn, 'minion' | 'resource'>): string {
  return resource ?? minion;
}

/**
 * Returns whether a minion's `retcode` indicates a failure: it is not 0, or for several functions a
 * map with a value that is not 0 [salt cli/salt.py _get_retcode].
 */
export function isFailureCode(retcode: WireValue): boolean {
  if (retcode instanceof Map) return [...retcode.values()].some(isFailureCode);
  if (isWireMap(retcode)) return Object.values(retcode).some(isFailureCode);
  return retcode !== 0 && retcode !== false && retcode !== null;
}
