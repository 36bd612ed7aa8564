/** Objects that jinja2 provides in templates. */

import { equals } from '../python/comparison.ts';
import { updateDict } from '../python/dict-methods.ts';
import { PythonException, typeError } from '../python/exceptions.ts';
import { BuiltinFunction } from '../python/functions.ts';
import { readLate } from '../python/late.ts';
import type { UsageMeter } from '../python/limits.ts';
import { repr, textRepr } from '../python/repr.ts';
import { iterate, tryLength } from '../python/sequences.ts';
import {
  type Arguments,
  Dict,
  type PyObject,
  Tuple,
  Undefined,
  type Value,
} from '../python/values.ts';

/** Result of `namespace()`, the only object whose attributes templates can set. */
export class Namespace implements PyObject {
  readonly typeName = 'Namespace';
  readonly module = 'jinja2.utils.';
  readonly values: Dict = new Dict();

  constructor(args: Arguments, meter: UsageMeter) {
    updateDict(this.values, args, meter);
  }

  repr(): string {
    return `<Namespace ${repr(this.values)}>`;
  }

  attribute(name: string): Value | undefined {
    return this.values.get(name);
  }
}

/** Iterator of a loop, visible in its body as `loop`. */
export class Loop implements PyObject {
  readonly typeName = 'LoopContext';
  readonly module = 'jinja2.runtime.';
  readonly #iterable: Value;
  readonly #recurse: ((iterable: Value, depth: number) => Value) | undefined;
  readonly #depth0: number;
  readonly #isStrict: boolean;
  readonly #meter: UsageMeter;
  #iterator: Iterator<Value>;
  #length: number | undefined;
  #index0 = -1;
  #before: Value | undefined;
  #current: Value | undefined;
  #after: Value | undefined;
  #isEnded = false;
  #changed: readonly Value[] | undefined;

  constructor(
    iterable: Value,
    options: {
      readonly recurse: ((iterable: Value, depth: number) => Value) | undefined;
      readonly depth0: number;
      readonly isStrict: boolean;
      readonly meter: UsageMeter;
    },
  ) {
    this.#iterable = iterable;
    this.#iterator = iterate(iterable);
    this.#recurse = options.recurse;
    this.#depth0 = options.depth0;
    this.#isStrict = options.isStrict;
    this.#meter = options.meter;
  }

  /** Returns the next item, or `undefined` at the end. */
  next(): Value | undefined {
    const item = this.#peek();
    if (item === undefined) return undefined;
    this.#after = undefined;
    this.#index0 += 1;
    this.#before = this.#current;
    this.#current = item;
    return item;
  }

  #peek(): Value | undefined {
    if (this.#after !== undefined || this.#isEnded) return this.#after;
    const next = this.#iterator.next();
    this.#isEnded = next.done === true;
    this.#after = next.done === true ? undefined : next.value;
    return this.#after;
  }

  size(): number {
    this.#length ??= tryLength(this.#iterable) ?? this.#count();
    return this.#length;
  }

  /**
   * Returns the number of items. If an iterator has no length, it is read to its end, and its items
   * are buffered.
   */
  #count(): number {
    const rest: Value[] = [];
    for (let item = this.#iterator.next(); item.done !== true; item = this.#iterator.next()) {
      this.#meter.step();
      rest.push(item.value);
    }
    this.#iterator = rest.values();
    return rest.length + this.#index0 + 1 + (this.#after === undefined ? 0 : 1);
  }

  attribute(name: string): Value | undefined {
    switch (name) {
      case 'index':
        return this.#index0 + 1;
      case 'index0':
        return this.#index0;
      case 'revindex':
        return this.size() - this.#index0;
      case 'revindex0':
        return this.size() - this.#index0 - 1;
      case 'first':
        return this.#index0 === 0;
      case 'last':
        return this.#peek() === undefined;
      case 'length':
        return this.size();
      case 'depth':
        return this.#depth0 + 1;
      case 'depth0':
        return this.#depth0;
      case 'previtem':
        return this.#neighbour(this.#index0 === 0 ? undefined : this.#before, 'previous');
      case 'nextitem':
        return this.#neighbour(this.#peek(), 'next');
      case 'cycle':
        return new BuiltinFunction('cycle', ({ positional }) => this.#cycle(positional));
      case 'changed':
        return new BuiltinFunction('changed', ({ positional }) => this.#hasChanged(positional));
    }
    return undefined;
  }

  #neighbour(item: Value | undefined, which: string): Value {
    return item === undefined ? new Undefined(`there is no ${which} item`, this.#isStrict) : item;
  }

  #cycle(items: readonly Value[]): Value {
    const item = items[this.#index0 % items.length];
    if (item === undefined) throw typeError('no items for cycling given');
    return item;
  }

  #hasChanged(values: readonly Value[]): boolean {
    const known = this.#changed;
    this.#changed = values;
    return known === undefined || !equals(new Tuple(known), new Tuple(values));
  }

  call({ positional }: Arguments): Value {
    const [iterable] = positional;
    if (this.#recurse === undefined) {
      throw typeError("The loop must have the 'recursive' marker to be called recursively.");
    }
    if (iterable === undefined || positional.length > 1) {
      throw typeError('LoopContext.__call__() takes 1 positional argument');
    }
    return this.#recurse(iterable, this.#depth0 + 1);
  }

  repr(): string {
    return `<LoopContext ${this.#index0 + 1}/${this.size()}>`;
  }
}

/** An imported template: its text and exported names. */
export class Module implements PyObject {
  readonly typeName = 'TemplateModule';
  readonly module = 'jinja2.environment.';
  readonly name: string;
  readonly text: string;
  readonly #exported: ReadonlyMap<string, Value>;

  constructor(name: string, text: string, exported: ReadonlyMap<string, Value>) {
    this.name = name;
    this.text = text;
    this.#exported = exported;
  }

  /** Returns the value that the template exports under a name. It may be a `LateValue`. */
  exported(name: string): Value | undefined {
    return this.#exported.get(name);
  }

  attribute(name: string): Value | undefined {
    const value = this.exported(name);
    return value === undefined ? undefined : readLate(value);
  }

  str(): string {
    return this.text;
  }

  repr(): string {
    return `<TemplateModule ${textRepr(this.name)}>`;
  }
}

/** Result of `cycler()`. */
export class Cycler implements PyObject {
  readonly typeName = 'Cycler';
  readonly module = 'jinja2.utils.';
  readonly #items: readonly Value[];
  #at = 0;

  constructor({ positional }: Arguments) {
    if (positional.length === 0)
      throw new PythonException('RuntimeError', 'at least one item has to be provided');
    this.#items = positional;
  }

  attribute(name: string): Value | undefined {
    switch (name) {
      case 'current':
        return this.#items[this.#at];
      case 'pos':
        return this.#at;
      case 'items':
        return new Tuple(this.#items);
      case 'next':
        return new BuiltinFunction('next', () => {
          const item = this.#items[this.#at] ?? null;
          this.#at = (this.#at + 1) % this.#items.length;
          return item;
        });
      case 'reset':
        return new BuiltinFunction('reset', () => {
          this.#at = 0;
          return null;
        });
    }
    return undefined;
  }

  repr(): string {
    return '<jinja2.utils.Cycler object>';
  }
}

/** Result of `joiner()`: empty at the first call, then the separator. */
export class Joiner implements PyObject {
  readonly typeName = 'Joiner';
  readonly module = 'jinja2.utils.';
  readonly #separator: Value;
  #isUsed = false;

  constructor(separator: Value) {
    this.#separator = separator;
  }

  call(): Value {
    const text = this.#isUsed ? this.#separator : '';
    this.#isUsed = true;
    return text;
  }

  attribute(name: string): Value | undefined {
    return name === 'sep' ? this.#separator : name === 'used' ? this.#isUsed : undefined;
  }

  repr(): string {
    return '<jinja2.utils.Joiner object>';
  }
}

/** Value of `super` and `self.name`: a block that can be called. */
export class BlockReference implements PyObject {
  readonly typeName = 'BlockReference';
  readonly module = 'jinja2.runtime.';
  readonly #render: (depth: number) => string;
  readonly #depth: number;
  readonly #count: number;
  readonly #missing: () => Undefined;

  constructor(
    render: (depth: number) => string,
    depth: number,
    count: number,
    missing: () => Undefined,
  ) {
    this.#render = render;
    this.#depth = depth;
    this.#count = count;
    this.#missing = missing;
  }

  call(): Value {
    return this.#render(this.#depth);
  }

  attribute(name: string): Value | undefined {
    if (name !== 'super') return undefined;
    const next = this.#depth + 1;
    if (next >= this.#count) return this.#missing();
    return new BlockReference(this.#render, next, this.#count, this.#missing);
  }

  repr(): string {
    return '<jinja2.runtime.BlockReference object>';
  }
}

/** Value of `self` in templates: the blocks, by name. */
export class TemplateReference implements PyObject {
  readonly typeName = 'TemplateReference';
  readonly module = 'jinja2.runtime.';
  readonly #find: (name: string) => Value | undefined;

  constructor(find: (name: string) => Value | undefined) {
    this.#find = find;
  }

  item(key: Value): Value | undefined {
    if (typeof key !== 'string') return undefined;
    return this.#find(key);
  }

  repr(): string {
    return '<TemplateReference>';
  }
}
