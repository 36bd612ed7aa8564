/** Expressions to values. */

import { contains, equals, isOrdered } from '../python/compare.ts';
import { isTrue, iterate } from '../python/iterate.ts';
import { binary, unary } from '../python/operators.ts';
import { Raised, typeError } from '../python/raise.ts';
import { str, textRepr, typeName } from '../python/repr.ts';
import { sliceOf } from '../python/slice.ts';
import {
  type Arguments,
  Dict,
  isPyObject,
  isText,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import { callFilter, callTest } from './apply.ts';
import type { CallArguments, CallNode, CompareOperator, Expression, FilterNode } from './ast.ts';
import type { Frame } from './frame.ts';

/** The value of an expression. @throws Raised, LimitExceeded, Unsupported */
export function evaluate(node: Expression, frame: Frame): Value {
  const { rendering } = frame.run;
  switch (node.kind) {
    case 'const':
      return node.value;
    case 'name':
      return frame.read(node.name);
    case 'attribute':
      return rendering.attribute(evaluate(node.target, frame), node.name);
    case 'item':
      return rendering.item(evaluate(node.target, frame), evaluate(node.key, frame));
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
      return isTrue(left) ? evaluate(node.right, frame) : left;
    }
    case 'or': {
      const left = evaluate(node.left, frame);
      return isTrue(left) ? left : evaluate(node.right, frame);
    }
    case 'not':
      return !isTrue(evaluate(node.operand, frame));
    case 'compare':
      return compare(node.first, node.rest, frame);
    case 'binary':
      return binary(
        evaluate(node.left, frame),
        node.operator,
        evaluate(node.right, frame),
        rendering.meter,
      );
    case 'unary':
      return unary(node.operator, evaluate(node.operand, frame));
    case 'concat':
      return concat(node.items, frame);
    case 'conditional':
      if (isTrue(evaluate(node.test, frame))) return evaluate(node.yes, frame);
      if (node.no !== undefined) return evaluate(node.no, frame);
      // Never strict: jinja2 makes this one of its plain class.
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
      });
    }
  }
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

/** What a comparison may have to go through. */
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

/** Calls a value as a template does. @throws Raised TypeError for what cannot be called */
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

/** A call with what a call block adds to it. */
export function callNode(node: CallNode, caller: Value, frame: Frame): Value {
  const target = evaluate(node.target, frame);
  return call(target, argumentsFor(node, frame, new Map([['caller', caller]])), frame);
}

/** Runs a filter, and those before it where they stand without a target. */
function filter(node: FilterNode, target: Value, frame: Frame): Value {
  const args = argumentsFor(node, frame);
  return callFilter(frame.run.rendering, node.name, withTarget(target, args));
}

/** The filters of a block over its text. */
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
    throw new Raised('TypeError', `got multiple values for keyword argument ${textRepr(name)}`);
  }
  named.set(name, value);
}
