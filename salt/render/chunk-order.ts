/** Orders the states of an SLS. */

import { compareTexts } from '#runtime';
import { Float, type PlainData } from '#template';

/** Sort key of one chunk of an SLS. */
export interface ChunkPlace {
  /** Value of the `order` argument. */
  readonly order: PlainData | undefined;
  /**
   * Position among the chunks that one option `names` has produced, counted from 1. 0 if the chunk
   * does not come from `names`.
   */
  readonly nameOrder: number;
  /** Concatenated state, name and function. */
  readonly text: string;
}

/**
 * Returns the chunks sorted by `order`, and chunks with the same `order` by `text`.
 * @param placeOf - returns the sort key of a chunk
 */
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
    .sort((left, right) => left.order - right.order || compareTexts(left.text, right.text))
    .map(({ chunk }) => chunk);
}

/**
 * Converts the `order` of a chunk to a number.
 * @param cap - number that is higher than all explicit orders
 */
function rankOf(said: PlainData | undefined, nameOrder: number, cap: number): number {
  const order = numberOf(said, cap) + nameOrder / 10_000;
  return order < 0 ? cap + 1_000_000 + order : order;
}

function numberOf(said: PlainData | undefined, cap: number): number {
  if (typeof said === 'number') return said;
  if (said instanceof Float) return said.value;
  if (said === 'last') return cap + 1_000_000;
  return said === 'first' ? 0 : cap;
}
