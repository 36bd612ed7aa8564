/** Evaluates expressions to values. */

import type { FilterContext, FilterDefinition } from '../filters/definition.ts';
import { filters, tests } from '../filters/index.ts';
import { contains, equals, isOrdered } from '../python/comparison.ts';
import { dictMethods } from '../python/dict-methods.ts';
import { PythonException, typeError } from '../python/exceptions.ts';
import { bindArguments } from '../python/functions.ts';
import { lateItem, readLate } from '../python/late.ts';
import { binaryOperation, unaryOperation } from '../python/operators.ts';
import { printedText, str, textRepr, typeName } from '../python/repr.ts';
import { isTruthy, iterate } from '../python/sequences.ts';
import { sliceOf } from '../python/subscripts.ts';
import {
  type Arguments,
  Dict,
  isPyObject,
  isText,
  type PyObject,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import type {
  CallArguments,
  CallNode,
  CompareOperator,
  Expression,
  FilterNode,
  MacroParts,
} from './ast.ts';
import type { Frame } from './frame.ts';
import { BlockReference, Loop } from './objects.ts';
import type { Rendering } from './rendering.ts';

/**
 * Calls a filter.
 * @throws PythonException TemplateRuntimeError for an unknown filter; UnsupportedFeature for an
 * unsupported one
 */
function callFilter(rendering: Rendering, name: string, args: Arguments): Value {
  return apply(filters.get(name), 'filter', name, args, rendering);
}

/**
 * Calls a test.
 * @throws PythonException TemplateRuntimeError for an unknown test
 */
function callTest(rendering: Rendering, name: string, args: Arguments): Value {
  return apply(tests.get(name), 'test', name, args, rendering);
}

function apply(
  definition: FilterDefinition | undefined,
  what: string,
  name: string,
  args: Arguments,
  rendering: Rendering,
): Value {
  if (definition === undefined) {
    throw new PythonException('TemplateRuntimeError', `No ${what} named ${textRepr(name)} found.`);
  }
  rendering.meter.step();
  const context = contextOf(rendering);
  if (definition.run !== undefined) {
    return definition.run(context, ...bindArguments(name, definition, args));
  }
  return definition.runAll(context, args);
}

function contextOf(rendering: Rendering): FilterContext {
  return {
    meter: rendering.meter,
    isStrict: rendering.isStrict,
    lookup: rendering,
    now: rendering.now,
    random: rendering.random,
    filter: (name, args) => callFilter(rendering, name, args),
    test: (name, args) => callTest(rendering, name, args),
  };
}

/**
 * Evaluates an expression.
 * @throws PythonException, LimitExceeded, UnsupportedFeature
 */
export function evaluate(node: Expression, frame: Frame): Value {
  const value = evaluateLate(node, frame);
  return typeof value === 'object' ? readLate(value) : value;
}

/**
 * Evaluates an expression like {@link evaluate}. If the template can output the value without
 * reading it (`LateValue`), the value is not read.
 * @throws PythonException, LimitExceeded, UnsupportedFeature
 */
export function evaluateLate(node: Expression, frame: Frame): Value {
  const { rendering } = frame.run;
  switch (node.kind) {
    case 'const':
      return node.value;
    case 'name':
      return frame.read(node.name);
    case 'attribute': {
      const target = evaluateLate(node.target, frame);
      const late = isItemName(node.name) ? lateItem(target, node.name) : undefined;
      return late ?? rendering.attribute(readLate(target), node.name);
    }
    case 'item': {
      const target = evaluateLate(node.target, frame);
      const key = evaluate(node.key, frame);
      return lateItem(target, key) ?? rendering.item(readLate(target), key);
    }
    case 'call':
      return call(evaluate(node.target, frame), argumentsFor(node, frame, new Map()), frame);
    case 'filter':
      return filter(node, node.target === undefined ? '' : evaluate(node.target, frame), frame);
    case 'test': {
      const target = evaluate(node.target, frame);
      return callTest(rendering, node.name, withTarget(target, argumentsFor(node, frame)));
    }
    case 'and': {
      const left = evaluate(node.left, frame);
      return isTruthy(left) ? evaluate(node.right, frame) : left;
    }
    case 'or': {
      const left = evaluate(node.left, frame);
      return isTruthy(left) ? left : evaluate(node.right, frame);
    }
    case 'not':
      return !isTruthy(evaluate(node.operand, frame));
    case 'compare':
      return compare(node.first, node.rest, frame);
    case 'binary':
      return binaryOperation(
        evaluate(node.left, frame),
        node.operator,
        evaluate(node.right, frame),
        rendering.meter,
      );
    case 'unary':
      return unaryOperation(node.operator, evaluate(node.operand, frame));
    case 'concat':
      return concat(node.items, frame);
    case 'conditional':
      if (isTruthy(evaluate(node.test, frame))) return evaluateLate(node.yes, frame);
      if (node.no !== undefined) return evaluateLate(node.no, frame);
      // This value is never strict, because jinja2 creates its plain Undefined class here.
      return new Undefined(
        `the inline if-expression on line ${node.line} evaluated to false and no else section was defined.`,
        false,
      );
    case 'list':
      return node.items.map((item) => evaluate(item, frame));
    case 'tuple':
      return new Tuple(node.items.map((item) => evaluate(item, frame)));
    case 'dict':
      return new Dict(
        node.pairs.map(([key, value]) => [evaluate(key, frame), evaluate(value, frame)] as const),
      );
    case 'slice': {
      const part = (expression: Expression | undefined): Value =>
        expression === undefined ? null : evaluate(expression, frame);
      const target = evaluate(node.target, frame);
      return sliceOf(target, {
        start: part(node.start),
        stop: part(node.stop),
        step: part(node.step),
        meter: frame.run.rendering.meter,
      });
    }
  }
}

/**
 * Whether `value.name` always means the item `name` if `value` is a dict. `false` if `name` can be
 * a method or a special attribute.
 */
function isItemName(name: string): boolean {
  return !(dictMethods.has(name) || name === 'pop' || name === 'update' || name.startsWith('__'));
}

function compare(
  first: Expression,
  rest: readonly (readonly [CompareOperator, Expression])[],
  frame: Frame,
): boolean {
  let left = evaluate(first, frame);
  for (const [operator, operand] of rest) {
    const right = evaluate(operand, frame);
    frame.run.rendering.meter.comparisons(itemsOf(right));
    if (!compareTwo(left, operator, right)) return false;
    left = right;
  }
  return true;
}

/**
 * Returns the number of items of a list, tuple or dict, or 1 for other values. A comparison may
 * have to visit all of them.
 */
function itemsOf(value: Value): number {
  if (Array.isArray(value)) return value.length;
  if (value instanceof Tuple) return value.items.length;
  return value instanceof Dict ? value.size : 1;
}

function compareTwo(left: Value, operator: CompareOperator, right: Value): boolean {
  switch (operator) {
    case '==':
      return equals(left, right);
    case '!=':
      return !equals(left, right);
    case 'in':
      return contains(right, left);
    case 'not in':
      return !contains(right, left);
    default:
      return isOrdered(left, operator, right);
  }
}

function concat(items: readonly Expression[], frame: Frame): string {
  const { meter } = frame.run.rendering;
  let text = '';
  for (const item of items.map((expression) => evaluate(expression, frame))) {
    const piece = str(item);
    meter.text(piece.length);
    text += piece;
  }
  meter.text(text.length);
  return text;
}

/**
 * Calls a value.
 * @throws PythonException TypeError if it cannot be called
 */
function call(target: Value, args: Arguments, frame: Frame): Value {
  const { rendering } = frame.run;
  rendering.meter.step();
  if (target instanceof Undefined) throw target.error();
  if (!isPyObject(target) || target.call === undefined) {
    throw typeError(`'${typeName(target)}' object is not callable`);
  }
  const { file, line } = rendering;
  const result = target.call(args);
  rendering.file = file;
  rendering.line = line;
  return result;
}

/** Evaluates the call in a call block. The body of the block is passed as `caller`. */
export function callNode(node: CallNode, caller: Value, frame: Frame): Value {
  const target = evaluate(node.target, frame);
  return readLate(call(target, argumentsFor(node, frame, new Map([['caller', caller]])), frame));
}

/** Applies a filter to a value. */
function filter(node: FilterNode, target: Value, frame: Frame): Value {
  const args = argumentsFor(node, frame);
  return callFilter(frame.run.rendering, node.name, withTarget(target, args));
}

/** Applies the filters of a block to its text. */
export function filterBlock(node: FilterNode, text: string, frame: Frame): Value {
  const { target } = node;
  const inner = target?.kind === 'filter' ? filterBlock(target, text, frame) : text;
  return filter(node, inner, frame);
}

function withTarget(target: Value, args: Arguments): Arguments {
  return { positional: [target, ...args.positional], named: args.named };
}

function argumentsFor(
  node: CallArguments,
  frame: Frame,
  named: Map<string, Value> = new Map(),
): Arguments {
  const positional = node.positional.map((value) => evaluate(value, frame));
  for (const [name, value] of node.named) addNamed(named, name, evaluate(value, frame));
  if (node.morePositional !== undefined) {
    const iterator = iterate(evaluate(node.morePositional, frame));
    for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
      frame.run.rendering.meter.step();
      positional.push(next.value);
    }
  }
  if (node.moreNamed !== undefined) addMapping(named, evaluate(node.moreNamed, frame));
  return { positional, named };
}

function addMapping(named: Map<string, Value>, mapping: Value): void {
  if (mapping instanceof Undefined) throw mapping.error();
  if (!(mapping instanceof Dict)) {
    throw typeError(`argument after ** must be a mapping, not ${typeName(mapping)}`);
  }
  for (const [key, value] of mapping.entries()) {
    if (!isText(key)) throw typeError('keywords must be strings');
    addNamed(named, textOf(key), value);
  }
}

function addNamed(named: Map<string, Value>, name: string, value: Value): void {
  if (named.has(name)) {
    throw new PythonException(
      'TypeError',
      `got multiple values for keyword argument ${textRepr(name)}`,
    );
  }
  named.set(name, value);
}

/** A macro, or the body of a call block [Macro in jinja2/runtime.py]. */
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

  /**
   * Calls the macro.
   * @throws PythonException TypeError for arguments that it does not accept
   */
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

  /** Assigns the parameters. The default of a parameter may use the parameters before it. */
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

/** Returns the error for a template that extends two templates. */
export function extendedTwice(): PythonException {
  return new PythonException('TemplateRuntimeError', 'extended multiple times');
}

/** Returns the rendered text of an expression's value. */
export function outputText(node: Expression, value: Value, frame: Frame): string {
  const { print, meter } = frame.run.rendering;
  return print === undefined || isComposed(node, frame) ? printedText(value) : print(value, meter);
}

/** Names of filters that print any input as one value of JSON or YAML. */
const writers: ReadonlySet<string> = new Set([
  'json',
  'tojson',
  'yaml',
  'yaml_dquote',
  'yaml_encode',
  'yaml_squote',
]);

/**
 * Whether the value of an expression is finished output, which must be printed unchanged. This
 * applies to calls of macros, blocks and loops, and to filters that write JSON or YAML.
 */
function isComposed(node: Expression, frame: Frame): boolean {
  if (node.kind === 'filter') {
    if (writers.has(node.name)) return true;
    return node.name === 'indent' && node.target !== undefined && isComposed(node.target, frame);
  }
  if (node.kind !== 'call') return false;
  const { target } = node;
  const isNamed = target.kind === 'attribute' ? target.target.kind === 'name' : true;
  if (!isNamed || (target.kind !== 'name' && target.kind !== 'attribute')) return false;
  const called = evaluate(target, frame);
  return [Macro, BlockReference, Loop].some((made) => called instanceof made);
}
