/** The functions that a template calls as `salt['mod.fun'](…)`. */

import { Interruption } from './errors.ts';
import { type Origins, type PlainData, toPlain, toPython } from './python/convert.ts';
import { PythonException, UnsupportedFeature } from './python/exceptions.ts';
import { BuiltinFunction } from './python/functions.ts';
import { Dict, isText, type PyObject, textOf, type Value } from './python/values.ts';

/**
 * A function that templates call as `salt['mod.fun'](…)`. Its arguments and its result are plain
 * data. An exception ends the rendering with ERR_TEMPLATE_FUNCTION and the exception's message.
 * {@link Interruption} and {@link UnsupportedFeature} are rethrown unchanged.
 */
export type SaltFunction = (
  args: readonly PlainData[],
  kwargs: Readonly<Record<string, PlainData>>,
) => unknown;

/** A dict of plain data. */
type PlainDict = ReadonlyMap<PlainData, PlainData>;

/** A change of a dict that a template passed to a function. */
interface DictChange {
  /**
   * Dict that the function changes. It is a dict that the template passed, or a new dict that may
   * contain passed dicts. The template sees only the changes of dicts that it passed.
   */
  readonly dict: PlainDict;
  /**
   * Entries to add to the dict. If the dict already has a key, the new entry replaces the old
   * entry, see `isDeep`.
   */
  readonly entries: PlainDict;
  /**
   * Whether the change is recursive. If the old and the new value of a key are both dicts, the new
   * entries are then merged into the old dict. Otherwise the new value replaces the old one.
   */
  readonly isDeep: boolean;
}

/**
 * Result of a function that also changes dicts that it received as arguments, as some functions of
 * Salt do.
 */
export class ChangedArguments {
  /** Result of the function for callers other than templates, as plain data. */
  readonly data: PlainData;
  readonly changes: readonly DictChange[];
  /**
   * Result of the function for templates. If the function returns a dict that the template passed
   * to it, the template receives the same object, not a copy.
   */
  readonly returned: PlainData;

  constructor(data: PlainData, changes: readonly DictChange[], returned: PlainData = data) {
    this.data = data;
    this.changes = changes;
    this.returned = returned;
  }

  /**
   * Creates the result of a template function that merges `entries` into `dict` and returns `dict`.
   */
  static merging(dict: PlainDict, entries: PlainDict): ChangedArguments {
    return new ChangedArguments(entries, [{ dict, entries, isDeep: true }], dict);
  }

  /** Creates the result of a template function that sets `entries` in `dict` and returns `dict`. */
  static setting(dict: PlainDict, entries: PlainDict): ChangedArguments {
    const data = new Map([...dict, ...entries]);
    return new ChangedArguments(data, [{ dict, entries, isDeep: false }], dict);
  }
}

/** Returns the result of a {@link SaltFunction} as plain data, for callers other than templates. */
export function plainResult(result: unknown): PlainData {
  return result instanceof ChangedArguments ? result.data : toPlain(toPython(result));
}

/** Name of a function, such as `test.ping`. */
const functionName = /^[a-z_]\w*\.[a-z_]\w*$/i;

/**
 * Value of `salt` in a template. It contains only the given functions, which templates call as
 * `salt['test.ping']` or `salt.test.ping`.
 */
export class SaltFunctions implements PyObject {
  readonly typeName = 'AliasedLoader';
  readonly module = 'salt.utils.templates.';
  readonly #functions: Readonly<Record<string, SaltFunction>>;
  readonly #insteadOf: (fun: string) => string;

  /**
   * @param functions - functions by name
   * @param insteadOf - returns the reason why a function is not available, with an alternative
   */
  constructor(
    functions: Readonly<Record<string, SaltFunction>>,
    insteadOf: (fun: string) => string,
  ) {
    this.#functions = functions;
    this.#insteadOf = insteadOf;
  }

  item(key: Value): Value | undefined {
    return isText(key) ? this.#find(textOf(key)) : undefined;
  }

  /** Whether a function is available. */
  contains(member: Value): boolean {
    return isText(member) && Object.hasOwn(this.#functions, textOf(member));
  }

  attribute(name: string): Value | undefined {
    if (name === 'get')
      return new BuiltinFunction('get', ({ positional }) => this.#get(positional));
    return new SaltModule(name, (fun) => this.#find(fun));
  }

  #get([key = null, fallback = null]: readonly Value[]): Value {
    return this.item(key) ?? fallback;
  }

  #find(name: string): Value | undefined {
    const run = Object.hasOwn(this.#functions, name) ? this.#functions[name] : undefined;
    if (run === undefined) {
      return functionName.test(name) ? notServed(name, this.#insteadOf(name)) : undefined;
    }
    return new BuiltinFunction(name, ({ positional, named }) => {
      const origins: Origins = new Map();
      const plain = (value: Value): PlainData => toPlain(value, undefined, origins);
      const kwargs = Object.fromEntries(Array.from(named, ([key, value]) => [key, plain(value)]));
      const result = call(run, positional.map(plain), kwargs);
      if (!(result instanceof ChangedArguments)) return toPython(result, undefined, origins);
      for (const change of result.changes) apply(change, origins);
      return toPython(result.returned, undefined, origins);
    });
  }

  repr(): string {
    return '<salt.utils.templates.AliasedLoader object>';
  }
}

/**
 * Applies a function's change of a dict argument to the dict in the template. The function received
 * only a copy of this dict, as plain data.
 */
function apply({ dict, entries, isDeep }: DictChange, origins: Origins): void {
  const target = toPython(dict, undefined, origins);
  if (!(target instanceof Dict)) return;
  origins.set(dict, target);
  setEntries(target, entries, { origins, isDeep });
}

/**
 * Sets entries of a dict. If `isDeep` is set and both the old and the new value of a key are dicts,
 * the old dict is changed and not replaced.
 */
function setEntries(
  dict: Dict,
  entries: PlainDict,
  { origins, isDeep }: { readonly origins: Origins; readonly isDeep: boolean },
): void {
  for (const [name, item] of entries) {
    const key = toPython(name);
    const before = dict.get(key);
    const isMerged = isDeep && item instanceof Map && !origins.has(item);
    if (isMerged && before instanceof Dict) setEntries(before, item, { origins, isDeep });
    else dict.set(key, toPython(item, undefined, origins));
  }
}

/**
 * Returns a substitute for a function that this master does not have but Salt may have. Calling the
 * substitute fails. If the name were undefined instead, the filter `default` could hide the
 * problem.
 */
function notServed(name: string, instead: string): Value {
  return new BuiltinFunction(name, () => {
    throw new UnsupportedFeature(
      `the function ${name} is not served: ${instead}; see docs/compatibility.md`,
    );
  });
}

/**
 * Calls a function.
 * @throws PythonException SaltFunctionError
 */
function call(
  run: SaltFunction,
  args: readonly PlainData[],
  kwargs: Readonly<Record<string, PlainData>>,
): unknown {
  try {
    return run(args, kwargs);
  } catch (cause) {
    if (cause instanceof Interruption || cause instanceof UnsupportedFeature) throw cause;
    const message = cause instanceof Error ? cause.message : 'the function failed';
    throw new PythonException('SaltFunctionError', message, { cause });
  }
}

/** Value of `salt.mod`, with its functions as attributes. */
class SaltModule implements PyObject {
  readonly typeName = 'AliasedModule';
  readonly module = 'salt.utils.templates.';
  readonly #name: string;
  readonly #find: (name: string) => Value | undefined;

  constructor(name: string, find: (name: string) => Value | undefined) {
    this.#name = name;
    this.#find = find;
  }

  attribute(name: string): Value | undefined {
    return this.#find(`${this.#name}.${name}`);
  }

  repr(): string {
    return '<salt.utils.templates.AliasedModule object>';
  }
}
