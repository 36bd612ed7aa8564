/** Walks the syntax tree in jinja2's order and collects names. */

import type { CallArguments, Expression, NameNode, Statement, Target } from './ast.ts';

/** Returns the direct child expressions of an expression. */
export function partsOf(node: Expression): readonly Expression[] {
  switch (node.kind) {
    case 'const':
    case 'name':
      return [];
    case 'tuple':
    case 'list':
    case 'concat':
      return node.items;
    case 'dict':
      return node.pairs.flat();
    case 'conditional':
      return given(node.test, node.yes, node.no);
    case 'and':
    case 'or':
    case 'binary':
      return [node.left, node.right];
    case 'not':
    case 'unary':
      return [node.operand];
    case 'compare':
      return [node.first, ...node.rest.map(([, operand]) => operand)];
    case 'filter':
    case 'test':
    case 'call':
      return [...given(node.target), ...argumentsOf(node)];
    case 'attribute':
      return [node.target];
    case 'item':
      return [node.target, node.key];
    case 'slice':
      return given(node.target, node.start, node.stop, node.step);
  }
}

function argumentsOf({
  positional,
  named,
  morePositional,
  moreNamed,
}: CallArguments): Expression[] {
  return [...positional, ...named.map(([, value]) => value), ...given(morePositional, moreNamed)];
}

function given(...nodes: readonly (Expression | undefined)[]): Expression[] {
  return nodes.filter((node) => node !== undefined);
}

/** Yields every name in an expression. */
export function* namesInExpression(node: Expression): Generator<NameNode> {
  if (node.kind === 'name') yield node;
  for (const part of partsOf(node)) yield* namesInExpression(part);
}

/**
 * Yields each name to which a target assigns. In `ns.x`, the name `ns` is read and not assigned.
 */
function* namesInTarget(target: Target): Generator<NameNode> {
  if (target.kind === 'name') yield target;
  else if (target.kind === 'targets') {
    for (const item of target.items) yield* namesInTarget(item);
  }
}

/**
 * Yields each name in statements and their children.
 * @param withBlocks - whether names in `{% block %}` are included
 */
export function* namesInStatements(
  statements: readonly Statement[],
  withBlocks: boolean,
): Generator<NameNode> {
  for (const statement of statements) {
    if (statement.kind === 'block' && !withBlocks) continue;
    for (const part of partsOfStatement(statement)) {
      if (Array.isArray(part)) yield* namesInStatements(part, withBlocks);
      else if ('kind' in part) yield* namesInExpression(part);
      else yield* namesInTarget(part.target);
    }
  }
}

/** An expression, a list of statements, or an assignment target. */
type Part = Expression | Statement[] | { readonly target: Target };

function partsOfStatement(statement: Statement): readonly Part[] {
  switch (statement.kind) {
    case 'output':
      return statement.items.filter((item) => item.kind !== 'data');
    case 'assign':
      return [{ target: statement.target }, statement.value];
    case 'assignBlock':
      return [{ target: statement.target }, ...given(statement.filter), [...statement.body]];
    case 'for':
      return [
        { target: statement.target },
        statement.iterable,
        [...statement.body],
        [...statement.otherwise],
        ...given(statement.test),
      ];
    case 'if':
      return [statement.test, [...statement.body], [...statement.elifs], [...statement.otherwise]];
    case 'with':
      return [
        ...statement.targets.map((target) => ({ target })),
        ...statement.values,
        [...statement.body],
      ];
    case 'macro':
    case 'callBlock':
      return [
        ...(statement.kind === 'callBlock' ? [statement.call] : []),
        ...statement.parameters.map((target) => ({ target })),
        ...statement.defaults,
        [...statement.body],
      ];
    case 'filterBlock':
      return [[...statement.body], statement.filter];
    case 'extends':
    case 'include':
    case 'import':
    case 'fromImport':
      return [statement.template];
    case 'do':
      return [statement.value];
    case 'block':
    case 'scope':
      return [[...statement.body]];
    case 'break':
    case 'continue':
      return [];
  }
}

/** Returns the names that are read before any assignment. */
export function undeclaredIn(
  statements: readonly Statement[],
  wanted: readonly string[],
): ReadonlySet<string> {
  const open = new Set(wanted);
  const undeclared = new Set<string>();
  for (const { name, use } of namesInStatements(statements, false)) {
    if (use === 'load' && open.has(name)) undeclared.add(name);
    else open.delete(name);
  }
  return undeclared;
}
