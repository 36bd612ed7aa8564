/** Assigns values for `set`, loops and imports. */

import { PythonException, valueError } from '../python/exceptions.ts';
import { iterate } from '../python/sequences.ts';
import type { Value } from '../python/values.ts';
import type { Target } from './ast.ts';
import type { Frame } from './frame.ts';
import { Namespace } from './objects.ts';

/**
 * Assigns a value to a target. In a top-level frame, the name is also set in the template's
 * context, so that it is exported.
 */
export function assign(target: Target, value: Value, frame: Frame): void {
  if (target.kind === 'name') setName(target.name, value, frame);
  else if (target.kind === 'namespace') assignAttribute(target, value, frame);
  else unpack(target.items, value, (item, part) => assign(item, part, frame));
}

/** Assigns a value to a target in this frame only. The name is not exported. */
export function assignLocal(target: Target, value: Value, frame: Frame): void {
  if (target.kind === 'name') frame.set(target.name, value);
  else if (target.kind === 'targets') {
    unpack(target.items, value, (item, part) => assignLocal(item, part, frame));
  }
}

function assignAttribute(
  target: Target & { readonly kind: 'namespace' },
  value: Value,
  frame: Frame,
): void {
  const namespace = frame.read(target.name);
  if (!(namespace instanceof Namespace)) {
    throw new PythonException(
      'TemplateRuntimeError',
      'cannot assign attribute on non-namespace object',
    );
  }
  namespace.values.set(target.attribute, value);
}

/**
 * Unpacks a value into several targets.
 * @throws PythonException ValueError, TypeError
 */
function unpack(
  targets: readonly Target[],
  value: Value,
  assignTo: (target: Target, part: Value) => void,
): void {
  const parts: Value[] = [];
  const iterator = unpackable(value);
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
    parts.push(next.value);
    if (parts.length > targets.length) {
      throw valueError(`too many values to unpack (expected ${targets.length})`);
    }
  }
  if (parts.length < targets.length) {
    throw valueError(
      `not enough values to unpack (expected ${targets.length}, got ${parts.length})`,
    );
  }
  for (const [index, target] of targets.entries()) assignTo(target, parts[index] ?? null);
}

function unpackable(value: Value): Iterator<Value> {
  try {
    return iterate(value);
  } catch (error) {
    if (!(error instanceof PythonException) || error.kind !== 'TypeError') throw error;
    throw new PythonException(
      'TypeError',
      error.message.replace(/^'(\w+)' object is/, 'cannot unpack non-iterable $1 object'),
    );
  }
}

/**
 * Sets a name in a frame. In a top-level frame, the name is also set in the template's context, so
 * that it is exported.
 */
export function setName(name: string, value: Value, frame: Frame): void {
  frame.set(name, value);
  if (!frame.kind.isTop) return;
  frame.run.context.vars.set(name, value);
  if (!name.startsWith('_') && !name.startsWith('\0')) frame.run.context.exported.add(name);
}

/** Sets an imported name, which the template does not export. */
export function importName(name: string, value: Value, frame: Frame): void {
  frame.set(name, value);
  if (!frame.kind.isTop) return;
  frame.run.context.vars.set(name, value);
  frame.run.context.exported.delete(name);
}
