import { Raised, typeError } from '../python/raise.ts';
import { textRepr } from '../python/repr.ts';
import {
  type Arguments,
  Dict,
  type PyObject,
  Tuple,
  type Undefined,
  type Value,
} from '../python/values.ts';
import type { MacroParts } from './ast.ts';
import { evaluate } from './evaluate.ts';
import type { Frame } from './frame.ts';

/** A macro, or the inside of a call block [Macro in jinja2/runtime.py]. */
export class Macro implements PyObject {
  readonly typeName = 'Macro';
  readonly module = 'jinja2.runtime.';
  readonly #name: string;
  readonly #node: MacroParts;
  readonly #frame: Frame;
  readonly #render: (node: MacroParts, frame: Frame) => string;

  constructor(
    name: string,
    node: MacroParts,
    frame: Frame,
    render: (node: MacroParts, frame: Frame) => string,
  ) {
    this.#name = name;
    this.#node = node;
    this.#frame = frame;
    this.#render = render;
  }

  /** @throws Raised TypeError for arguments that it does not take */
  call(args: Arguments): Value {
    const { rendering, template } = this.#frame.run;
    rendering.meter.enter();
    const frame = this.#frame.inner(this.#node.scope, false);
    const named = new Map(args.named);
    const given = this.#take(args.positional, named);
    this.#takeSpecial(frame, args, named, given.hasCaller);
    rendering.file = template.name;
    rendering.line = this.#node.line;
    this.#assign(frame, given.values);
    const text = this.#render(this.#node, frame);
    rendering.meter.leave();
    return text;
  }

  #take(
    positional: readonly Value[],
    named: Map<string, Value>,
  ): { values: (Value | undefined)[]; hasCaller: boolean } {
    const { parameters } = this.#node;
    let hasCaller =
      positional.length >= parameters.length && parameters.some((p) => p.name === 'caller');
    const values = parameters.map(({ name }, index) => {
      if (index < positional.length) return positional[index];
      hasCaller ||= name === 'caller';
      const value = named.get(name);
      named.delete(name);
      return value;
    });
    return { values, hasCaller };
  }

  #takeSpecial(
    frame: Frame,
    { positional }: Arguments,
    named: Map<string, Value>,
    hasCaller: boolean,
  ): void {
    const { parameters, takesCaller, takesKwargs, takesVarargs } = this.#node;
    const { rendering } = this.#frame.run;
    if (takesCaller && !hasCaller) {
      const caller = named.get('caller');
      named.delete('caller');
      frame.set('caller', caller ?? rendering.undefinedBecause('No caller defined'));
    }
    const [surplus] = named.keys();
    if (takesKwargs) frame.set('kwargs', new Dict(named));
    else if (surplus !== undefined) this.#refuse(named, surplus);
    const count = parameters.length;
    if (takesVarargs) frame.set('varargs', new Tuple(positional.slice(count)));
    else if (positional.length > count) {
      throw typeError(`macro ${textRepr(this.#name)} takes not more than ${count} argument(s)`);
    }
  }

  #refuse(named: ReadonlyMap<string, Value>, surplus: string): never {
    const macro = `macro ${textRepr(this.#name)}`;
    if (named.has('caller')) {
      throw typeError(
        `${macro} was invoked with two values for the special caller argument. This is most likely a bug.`,
      );
    }
    throw typeError(`${macro} takes no keyword argument ${textRepr(surplus)}`);
  }

  /** What was not given has its default, which can look at the parameters before it. */
  #assign(frame: Frame, values: readonly (Value | undefined)[]): void {
    const { parameters, defaults } = this.#node;
    for (const [index, { name }] of parameters.entries()) {
      const value = values[index];
      if (value !== undefined) frame.set(name, value);
    }
    for (const [index, { name }] of parameters.entries()) {
      if (values[index] !== undefined) continue;
      const fallback = defaults[index - parameters.length + defaults.length];
      frame.set(name, fallback === undefined ? this.#notProvided(name) : evaluate(fallback, frame));
    }
  }

  #notProvided(name: string): Undefined {
    const { rendering } = this.#frame.run;
    return rendering.undefinedBecause(`parameter ${textRepr(name)} was not provided`);
  }

  attribute(name: string): Value | undefined {
    switch (name) {
      case 'name':
        return this.#name;
      case 'arguments':
        return new Tuple(this.#node.parameters.map((parameter) => parameter.name));
      case 'catch_kwargs':
        return this.#node.takesKwargs;
      case 'catch_varargs':
        return this.#node.takesVarargs;
      case 'caller':
        return this.#node.takesCaller;
    }
    return undefined;
  }

  repr(): string {
    return `<Macro ${textRepr(this.#name)}>`;
  }
}

/** A template that extends another twice. */
export function extendedTwice(): Raised {
  return new Raised('TemplateRuntimeError', 'extended multiple times');
}
