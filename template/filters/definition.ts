/** Definitions of filters, tests and functions. */

import { UnsupportedFeature } from '../python/exceptions.ts';
import type { FieldLookup } from '../python/format-fields.ts';
import type { Parameters } from '../python/functions.ts';
import type { UsageMeter } from '../python/limits.ts';
import { str, textRepr } from '../python/repr.ts';
import { iterate } from '../python/sequences.ts';
import { type Arguments, isText, textOf, Undefined, type Value } from '../python/values.ts';

/** Functions and settings of the current rendering that filters can use. */
export interface FilterContext {
  readonly meter: UsageMeter;
  /** Whether using an undefined value is an error. */
  readonly isStrict: boolean;
  readonly lookup: FieldLookup;
  readonly now: () => Date;
  readonly random: () => number;
  filter(name: string, args: Arguments): Value;
  test(name: string, args: Arguments): Value;
}

/**
 * Definition of a filter, test or function. It either has named parameters (`run`) or accepts any
 * arguments (`runAll`).
 */
export type FilterDefinition = Parameters &
  (
    | { readonly run: (context: FilterContext, ...args: Value[]) => Value }
    | {
        readonly run?: undefined;
        readonly runAll: (context: FilterContext, args: Arguments) => Value;
      }
  );

/** Filters, tests or functions by name. */
export type FilterDefinitions = Readonly<Record<string, FilterDefinition>>;

/** Defines a filter whose last parameters are optional. */
export function defineFilter(
  names: readonly string[],
  defaults: readonly Value[],
  run: (context: FilterContext, ...args: Value[]) => Value,
): FilterDefinition {
  return { names, defaults, run };
}

/** Defines a filter that has no parameters besides its value. */
export function simpleFilter(
  run: (value: Value, context: FilterContext) => Value,
): FilterDefinition {
  return defineFilter(['value'], [], (context, value = null) => run(value, context));
}

/** Defines a filter that accepts any arguments. */
export function variadicFilter(
  run: (context: FilterContext, args: Arguments) => Value,
): FilterDefinition {
  return { names: [], defaults: [], runAll: run };
}

/**
 * Defines a filter that is intentionally not supported. Using it fails with the given reason.
 * @param what - kind of definition in the error message, for example `filter`
 */
export function unsupportedFilter(what: string, name: string, reason: string): FilterDefinition {
  return variadicFilter(() => {
    throw new UnsupportedFeature(
      `the ${what} ${textRepr(name)} is not served: ${reason}; see docs/compatibility.md`,
    );
  });
}

/** Implements jinja2's `soft_str`: returns text unchanged, and converts other values to text. */
export function softText(value: Value): string {
  return isText(value) ? textOf(value) : str(value);
}

/**
 * Creates an undefined value.
 * @param message - message of the error if a template uses the value in a way that is not allowed
 */
export function undefinedValue({ isStrict }: FilterContext, message: string): Undefined {
  return new Undefined(message, isStrict);
}

/** Iterates over a value. Each item is counted as a step of the rendering. */
export function iterateItems(value: Value, context: FilterContext): Generator<Value> {
  return metered(iterate(value), context);
}

function* metered(iterator: Iterator<Value>, { meter }: FilterContext): Generator<Value> {
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
    meter.step();
    yield next.value;
  }
}
