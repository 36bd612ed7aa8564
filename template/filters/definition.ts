/** What filters, tests and functions are made of. */
import type { Meter } from '../limits.ts';
import type { Parameters } from '../python/functions.ts';
import { iterate } from '../python/iterate.ts';
import { Unsupported } from '../python/raise.ts';
import { str, textRepr } from '../python/repr.ts';
import type { FieldLookup } from '../python/str-format.ts';
import { type Arguments, isText, textOf, Undefined, type Value } from '../python/values.ts';

/** What filters may use of the rendering that they are part of. */
export interface FilterContext {
  readonly meter: Meter;
  /** Whether undefined values fail when they are used. */
  readonly isStrict: boolean;
  readonly lookup: FieldLookup;
  readonly now: () => Date;
  readonly random: () => number;
  filter(name: string, args: Arguments): Value;
  test(name: string, args: Arguments): Value;
}

/** A filter, test or function: with parameters, or with whatever it is given. */
export type Definition = Parameters &
  (
    | { readonly run: (context: FilterContext, ...args: Value[]) => Value }
    | {
        readonly run?: undefined;
        readonly runAll: (context: FilterContext, args: Arguments) => Value;
      }
  );

/** Filters, tests or functions by name. */
export type Definitions = Readonly<Record<string, Definition>>;

/** One whose last parameters have defaults. */
export function define(
  names: readonly string[],
  defaults: readonly Value[],
  run: (context: FilterContext, ...args: Value[]) => Value,
): Definition {
  return { names, defaults, run };
}

/** One that looks at its value only. */
export function simple(run: (value: Value, context: FilterContext) => Value): Definition {
  return define(['value'], [], (context, value = null) => run(value, context));
}

/** One that takes any arguments. */
export function variadic(run: (context: FilterContext, args: Arguments) => Value): Definition {
  return { names: [], defaults: [], runAll: run };
}

/** One that is left out, with the reason; it fails when it is used. */
export function leftOut(what: string, name: string, reason: string): Definition {
  return variadic(() => {
    throw new Unsupported(`the ${what} ${textRepr(name)} is not supported: ${reason}`);
  });
}

/** `soft_str`: text stays text, all else is printed. */
export function softText(value: Value): string {
  return isText(value) ? textOf(value) : str(value);
}

/** An undefined value with a reason. */
export function missing({ isStrict }: FilterContext, message: string): Undefined {
  return new Undefined(message, isStrict);
}

/** Goes through a value, each item a step. */
export function* items(value: Value, { meter }: FilterContext): Generator<Value> {
  const iterator = iterate(value);
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
    meter.step();
    yield next.value;
  }
}
