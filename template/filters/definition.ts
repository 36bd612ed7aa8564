/** What filters, tests and functions are made of. */

import { UnsupportedFeature } from '../python/exceptions.ts';
import type { FieldLookup } from '../python/format-fields.ts';
import type { Parameters } from '../python/functions.ts';
import type { UsageMeter } from '../python/limits.ts';
import { str, textRepr } from '../python/repr.ts';
import { iterate } from '../python/sequences.ts';
import { type Arguments, isText, textOf, Undefined, type Value } from '../python/values.ts';

/** What filters may use of the rendering that they are part of. */
export interface FilterContext {
  readonly meter: UsageMeter;
  /** Whether undefined values fail when they are used. */
  readonly isStrict: boolean;
  readonly lookup: FieldLookup;
  readonly now: () => Date;
  readonly random: () => number;
  filter(name: string, args: Arguments): Value;
  test(name: string, args: Arguments): Value;
}

/** A filter, test or function: with parameters, or with whatever it is given. */
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

/** One whose last parameters have defaults. */
export function defineFilter(
  names: readonly string[],
  defaults: readonly Value[],
  run: (context: FilterContext, ...args: Value[]) => Value,
): FilterDefinition {
  return { names, defaults, run };
}

/** One that looks at its value only. */
export function simpleFilter(
  run: (value: Value, context: FilterContext) => Value,
): FilterDefinition {
  return defineFilter(['value'], [], (context, value = null) => run(value, context));
}

/** One that takes any arguments. */
export function variadicFilter(
  run: (context: FilterContext, args: Arguments) => Value,
): FilterDefinition {
  return { names: [], defaults: [], runAll: run };
}

/** One that is left out, with the reason; it fails when it is used. */
export function unsupportedFilter(what: string, name: string, reason: string): FilterDefinition {
  return variadicFilter(() => {
    throw new UnsupportedFeature(
      `the ${what} ${textRepr(name)} is not served: ${reason}; see docs/compatibility.md`,
    );
  });
}

/** `soft_str`: text stays text, all else is printed. */
export function softText(value: Value): string {
  return isText(value) ? textOf(value) : str(value);
}

/** An undefined value with a reason. */
export function undefinedValue({ isStrict }: FilterContext, message: string): Undefined {
  return new Undefined(message, isStrict);
}

/** Goes through a value, each item a step. */
export function iterateItems(value: Value, context: FilterContext): Generator<Value> {
  return metered(iterate(value), context);
}

function* metered(iterator: Iterator<Value>, { meter }: FilterContext): Generator<Value> {
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
    meter.step();
    yield next.value;
  }
}
