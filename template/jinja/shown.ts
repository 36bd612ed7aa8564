import { printed } from '../python/repr.ts';
import type { Value } from '../python/values.ts';
import type { Expression } from './ast.ts';
import { evaluate } from './evaluate.ts';
import type { Frame } from './frame.ts';
import { Macro } from './macro.ts';
import { BlockReference, Loop } from './objects.ts';

/** What stands in the text for the value of an expression. */
export function shown(node: Expression, value: Value, frame: Frame): string {
  const { print } = frame.run.rendering;
  return print === undefined || isComposed(node, frame) ? printed(value) : print(value);
}

/** Filters that write whatever they get as one value of JSON or YAML. */
const writers: ReadonlySet<string> = new Set([
  'json',
  'tojson',
  'yaml',
  'yaml_dquote',
  'yaml_encode',
  'yaml_squote',
]);

/** Whether a value is text that was put together already. */
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
