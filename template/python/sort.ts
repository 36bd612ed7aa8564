import type { Meter } from '../limits.ts';
import { isOrdered } from './compare.ts';
import type { Value } from './values.ts';

/** How `sorted` is told to sort. */
export interface SortOptions {
  readonly key?: (item: Value) => Value;
  readonly reverse?: boolean;
}

/** `sorted(items)`: stable, also in reverse. @throws Raised TypeError for what has no order */
export function sorted(items: readonly Value[], options: SortOptions, meter: Meter): Value[] {
  const { key = (item) => item, reverse = false } = options;
  meter.step(items.length);
  const keyed = items.map((item) => ({ item, key: key(item) }));
  const direction = reverse ? -1 : 1;
  keyed.sort((left, right) => {
    meter.step();
    if (isOrdered(right.key, '<', left.key)) return direction;
    return isOrdered(left.key, '<', right.key) ? -direction : 0;
  });
  return keyed.map(({ item }) => item);
}
