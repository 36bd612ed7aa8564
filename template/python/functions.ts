/** Calls functions of this interpreter with Python arguments. */

import { typeError } from './exceptions.ts';
import type { UsageMeter } from './limits.ts';
import type { Arguments, PyObject, Value } from './values.ts';

/** Parameters of a function. */
export interface Parameters {
  readonly names: readonly string[];
  /** Defaults of the last parameters. The parameters before them are required. */
  readonly defaults: readonly Value[];
}

/**
 * Assigns arguments to parameters and returns them in the order of the parameters.
 * @throws PythonException TypeError
 */
export function bindArguments(
  name: string,
  { names, defaults }: Parameters,
  args: Arguments,
): Value[] {
  const { positional, named } = args;
  if (positional.length > names.length) {
    throw typeError(
      `${name}() takes at most ${names.length} arguments (${positional.length} given)`,
    );
  }
  const bound: Value[] = [...positional];
  for (const [index, parameter] of names.entries()) {
    const value = named.get(parameter);
    if (index < positional.length) {
      if (value !== undefined) {
        throw typeError(`${name}() got multiple values for argument '${parameter}'`);
      }
      continue;
    }
    const fallback = defaults[index - names.length + defaults.length];
    const chosen = value ?? (value === undefined ? fallback : null);
    if (chosen === undefined) {
      throw typeError(`${name}() missing 1 required positional argument: '${parameter}'`);
    }
    bound.push(chosen);
  }
  for (const key of named.keys()) {
    if (!names.includes(key)) {
      throw typeError(`${name}() got an unexpected keyword argument '${key}'`);
    }
  }
  return bound;
}

/** A built-in function of the interpreter, as a Python value. */
export class BuiltinFunction implements PyObject {
  readonly typeName = 'builtin_function_or_method';
  readonly #name: string;
  readonly #run: (args: Arguments) => Value;

  constructor(name: string, run: (args: Arguments) => Value) {
    this.#name = name;
    this.#run = run;
  }

  repr(): string {
    return `<built-in function ${this.#name}>`;
  }

  call(args: Arguments): Value {
    return this.#run(args);
  }
}

/** A method of a type. Its first argument is the value on which it is called. */
export interface Method<Self> extends Parameters {
  readonly run: (self: Self, meter: UsageMeter, ...args: Value[]) => Value;
}

/** All methods of a type that templates can call, by name. */
export type Methods<Self> = ReadonlyMap<string, Method<Self>>;

/** Defines a method with optional trailing parameters. */
export function defineMethod<Self>(
  names: readonly string[],
  defaults: readonly Value[],
  run: (self: Self, meter: UsageMeter, ...args: Value[]) => Value,
): Method<Self> {
  return { names, defaults, run };
}

/** Binds a method to a value. */
export function boundMethod<Self>(
  methods: Methods<Self>,
  name: string,
  self: Self,
  meter: UsageMeter,
): BuiltinFunction | undefined {
  const found = methods.get(name);
  if (found === undefined) return undefined;
  return new BuiltinFunction(name, (args) =>
    found.run(self, meter, ...bindArguments(name, found, args)),
  );
}
