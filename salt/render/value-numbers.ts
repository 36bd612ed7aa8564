import type { PlainData } from '#template';
import { type HashKey, hashKey } from '#template/python/values.ts';
import { isList, isPillarMap, type PillarMap } from './pillar-data.ts';
import { type Slices, type Steps, stepsPerValue } from './slices.ts';

type Container = readonly PlainData[] | PillarMap;

/** Number of characters or bytes that are read in one step of a `WorkBudget`. */
const charactersPerStep = 10;

/**
 * Assigns a number to each value, so that many values can be compared in linear time. Two values
 * get the same number if they are equal in Python: `1`, `1.0` and `True` are equal, also inside
 * lists and maps, and the order of the entries of a map does not matter.
 */
export class ValueNumbers {
  readonly #slices: Slices;
  readonly #numbers = new Map<HashKey, number>();
  /** Numbers of the lists and maps so far, so that each of them is visited once. */
  readonly #visited = new Map<Container, number>();

  constructor(slices: Slices) {
    this.#slices = slices;
  }

  /** Returns the numbers of values. Yields when the slice is over. */
  *of(values: Iterable<PlainData>): Steps<number[]> {
    const numbers: number[] = [];
    for (const value of values) {
      this.#slices.addToSlice(stepsPerValue);
      if (this.#slices.isSliceOver) yield;
      const isContainer = isList(value) || isPillarMap(value);
      numbers.push(isContainer ? yield* this.#ofContainer(value) : this.#ofScalar(value));
    }
    return numbers;
  }

  *#ofContainer(value: Container): Steps<number> {
    const known = this.#visited.get(value);
    if (known !== undefined) return known;
    const number = this.#numberOf(yield* this.#keyOf(value));
    this.#visited.set(value, number);
    return number;
  }

  /**
   * Returns a key that only equal lists or maps share. It contains the numbers of the elements or
   * entries, and not their values, so that its length does not depend on nested values. The keys of
   * scalars do not start with the same characters, see {@link hashKey}.
   */
  *#keyOf(value: Container): Steps<string> {
    if (isList(value)) return `\0list ${(yield* this.of(value)).join()}`;
    const keys = yield* this.of(value.keys());
    const items = yield* this.of(value.values());
    const entries = new Uint32Array(keys.length);
    for (const [place, key] of keys.entries()) {
      this.#slices.addToSlice(stepsPerValue);
      if (this.#slices.isSliceOver) yield;
      entries[place] = this.#numberOf(`\0entry ${key}:${items[place]}`);
    }
    return `\0map ${entries.sort().join()}`;
  }

  #ofScalar(value: Exclude<PlainData, Container>): number {
    if (typeof value === 'string' || value instanceof Uint8Array) {
      this.#slices.addToSlice(Math.floor(value.length / charactersPerStep));
    }
    return value instanceof Uint8Array
      ? this.#numberOf(`\0bytes ${Buffer.from(value).toString('latin1')}`)
      : this.#numberOf(hashKey(value));
  }

  #numberOf(key: HashKey): number {
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const number = this.#numbers.size;
    this.#numbers.set(key, number);
    return number;
  }
}
