/** The return of a minion to a job: its stored row, and the meaning of its fields. */

import Type from 'typebox';
import { isWireMap, localField, unpackLocal, type WireValue } from '#minion-protocol';
import { defineRow, type RowCodec, Texts } from '#store';
import type { JobReturn } from '../api/index.ts';

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());

/** Rows `returns/<jid>/<minion>` and `returns/<jid>/<minion>/<resource>`. */
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

/** The name that a result is shown under: that of the minion, or of what it manages. */
export function returnerOf({ minion, resource }: Pick<JobReturn, 'minion' | 'resource'>): string {
  return resource ?? minion;
}

/**
 * Whether a minion's `retcode` says that it failed: not 0, or, where several functions ran, a map
 * with one that is not [salt cli/salt.py _get_retcode].
 */
export function isFailureCode(retcode: WireValue): boolean {
  if (retcode instanceof Map) return [...retcode.values()].some(isFailureCode);
  if (isWireMap(retcode)) return Object.values(retcode).some(isFailureCode);
  return retcode !== 0 && retcode !== false && retcode !== null;
}
