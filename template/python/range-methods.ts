/** The methods of `range`. */
import type { Meter } from '../limits.ts';
import { equals } from './compare.ts';
import { type Methods, method } from './functions.ts';
import { toArray } from './iterate.ts';
import { valueError } from './raise.ts';
import { repr } from './repr.ts';
import { isInteger, type Range, type Value } from './values.ts';

export const rangeMethods: Methods<Range> = new Map([
  [
    'count',
    method<Range>(['value'], [], (range, meter, wanted) => {
      return placeOf(range, wanted ?? null, meter) < 0 ? 0 : 1;
    }),
  ],
  [
    'index',
    method<Range>(['value'], [], (range, meter, wanted = null) => {
      const place = placeOf(range, wanted, meter);
      if (place >= 0) return place;
      throw valueError(
        isInteger(wanted)
          ? `${repr(wanted)} is not in range`
          : 'sequence.index(x): x not in sequence',
      );
    }),
  ],
]);

/** -1: it is not there. */
function placeOf(range: Range, wanted: Value, meter: Meter): number {
  return toArray(range, () => meter.step()).findIndex((number) => equals(number, wanted));
}
