import { type PlainData, toPlain, toPython } from './python/convert.ts';
import { Builtin } from './python/functions.ts';
import { Raised } from './python/raise.ts';
import { isText, type PyObject, textOf, type Value } from './python/values.ts';

/**
 * A function that templates may call as `salt['mod.fun'](…)`: plain data in and out. What it
 * throws ends the rendering with ERR_TEMPLATE_FUNCTION and the error's message.
 */
export type SaltFunction = (
  args: readonly PlainData[],
  kwargs: Readonly<Record<string, PlainData>>,
) => unknown;

/** What `salt` is in a template: a closed table of functions. */
export class SaltFunctions implements PyObject {
  readonly typeName = 'AliasedLoader';
  readonly module = 'salt.utils.templates.';
  readonly #functions: Readonly<Record<string, SaltFunction>>;

  constructor(functions: Readonly<Record<string, SaltFunction>>) {
    this.#functions = functions;
  }

  item(key: Value): Value | undefined {
    return isText(key) ? this.#find(textOf(key)) : undefined;
  }

  attribute(name: string): Value | undefined {
    if (name === 'get') return new Builtin('get', ({ positional }) => this.#get(positional));
    const isModule = Object.keys(this.#functions).some((key) => key.startsWith(`${name}.`));
    return isModule ? new SaltModule(name, (fun) => this.#find(fun)) : undefined;
  }

  #get([key = null, fallback = null]: readonly Value[]): Value {
    return this.item(key) ?? fallback;
  }

  #find(name: string): Value | undefined {
    const run = Object.hasOwn(this.#functions, name) ? this.#functions[name] : undefined;
    if (run === undefined) return undefined;
    return new Builtin(name, ({ positional, named }) => {
      const args = positional.map((value) => toPlain(value));
      const kwargs = Object.fromEntries(Array.from(named, ([key, value]) => [key, toPlain(value)]));
      return toPython(call(run, args, kwargs));
    });
  }

  repr(): string {
    return '<salt.utils.templates.AliasedLoader object>';
  }
}

/** @throws Raised SaltFunctionError */
function call(
  run: SaltFunction,
  args: readonly PlainData[],
  kwargs: Readonly<Record<string, PlainData>>,
): unknown {
  try {
    return run(args, kwargs);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : 'the function failed';
    throw new Raised('SaltFunctionError', message, { cause });
  }
}

/** `salt.mod`: its functions are attributes. */
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
