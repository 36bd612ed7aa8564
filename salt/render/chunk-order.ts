/** The order in which the states of an SLS are run. */

import { Float, type PlainData } from '#template';

/** What the place of a chunk follows from. */
export interface ChunkPlace {
  /** Its `order`, as it is said. */
  readonly order: PlainData | undefined;
  /** Its place among those of the same `names`, from 1 on; 0: it has no such. */
  readonly nameOrder: number;
  /** State, name and function in one. */
  readonly text: string;
}

/** By `order`, then by what they are called. */
export function orderChunks<T>(chunks: readonly T[], placeOf: (chunk: T) => ChunkPlace): T[] {
  const places = chunks.map((chunk) => ({ chunk, ...placeOf(chunk) }));
  const cap = places.reduce(
    (highest, { order }) =>
      typeof order === 'number' && order > highest - 1 ? order + 100 : highest,
    1,
  );
  return places
    .map(({ chunk, order, nameOrder, text }) => ({
      chunk,
      text,
      order: rankOf(order, nameOrder, cap),
    }))
    .sort((left, right) => left.order - right.order || compare(left.text, right.text))
    .map(({ chunk }) => chunk);
}

/** @param cap what follows all that have a number */
function rankOf(said: PlainData | undefined, nameOrder: number, cap: number): number {
  const order = numberOf(said, cap) + nameOrder / 10_000;
  return order < 0 ? cap + 1_000_000 + order : order;
}

function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

function numberOf(said: PlainData | undefined, cap: number): number {
  if (typeof said === 'number') return said;
  if (said instanceof Float) return said.value;
  if (said === 'last') return cap + 1_000_000;
  return said === 'first' ? 0 : cap;
}
