/** The tree of a template, its parts in order, and the scopes of its names. */

import type { BinaryOperator } from '../python/operators.ts';
import type { Value } from '../python/values.ts';

/** An expression; `line` is that of jinja2. */
export type Expression =
  | { readonly kind: 'const'; readonly line: number; readonly value: Value }
  | NameNode
  | {
      readonly kind: 'tuple' | 'list';
      readonly line: number;
      readonly items: readonly Expression[];
    }
  | {
      readonly kind: 'dict';
      readonly line: number;
      readonly pairs: readonly (readonly [Expression, Expression])[];
    }
  | {
      readonly kind: 'conditional';
      readonly line: number;
      readonly test: Expression;
      readonly yes: Expression;
      readonly no: Expression | undefined;
    }
  | {
      readonly kind: 'and' | 'or';
      readonly line: number;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly kind: 'not'; readonly line: number; readonly operand: Expression }
  | {
      readonly kind: 'unary';
      readonly line: number;
      readonly operator: '+' | '-';
      readonly operand: Expression;
    }
  | {
      readonly kind: 'binary';
      readonly line: number;
      readonly operator: BinaryOperator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly kind: 'concat'; readonly line: number; readonly items: readonly Expression[] }
  | {
      readonly kind: 'compare';
      readonly line: number;
      readonly first: Expression;
      readonly rest: readonly (readonly [CompareOperator, Expression])[];
    }
  | FilterNode
  | TestNode
  | CallNode
  | {
      readonly kind: 'attribute';
      readonly line: number;
      readonly target: Expression;
      readonly name: string;
    }
  | {
      readonly kind: 'item';
      readonly line: number;
      readonly target: Expression;
      readonly key: Expression;
    }
  | {
      readonly kind: 'slice';
      readonly line: number;
      readonly target: Expression;
      readonly start: Expression | undefined;
      readonly stop: Expression | undefined;
      readonly step: Expression | undefined;
    };

/** What a comparison asks. */
export type CompareOperator = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in';

/** A name that is read, assigned to, or declared as a parameter. */
export interface NameNode {
  readonly kind: 'name';
  readonly line: number;
  readonly name: string;
  readonly use: 'load' | 'store' | 'parameter';
}

/** What a call passes on, as written. */
export interface CallArguments {
  readonly positional: readonly Expression[];
  readonly named: readonly (readonly [string, Expression])[];
  readonly morePositional: Expression | undefined;
  readonly moreNamed: Expression | undefined;
}

/** `target(…)`. */
export interface CallNode extends CallArguments {
  readonly kind: 'call';
  readonly line: number;
  readonly target: Expression;
}

/** `target|name(…)`; without a target, the text of a block. */
export interface FilterNode extends CallArguments {
  readonly kind: 'filter';
  readonly line: number;
  readonly target: Expression | undefined;
  readonly name: string;
}

/** `target is name(…)`. */
interface TestNode extends CallArguments {
  readonly kind: 'test';
  readonly line: number;
  readonly target: Expression;
  readonly name: string;
}

/** What can be assigned to. */
export type Target =
  | NameNode
  | { readonly kind: 'targets'; readonly line: number; readonly items: readonly Target[] }
  | {
      readonly kind: 'namespace';
      readonly line: number;
      readonly name: string;
      readonly attribute: string;
    };

/** Text of the template itself. */
export interface DataNode {
  readonly kind: 'data';
  readonly line: number;
  readonly text: string;
}

/** A loop; each part has names of its own. */
export interface ForNode {
  readonly kind: 'for';
  readonly line: number;
  readonly target: Target;
  readonly iterable: Expression;
  readonly body: readonly Statement[];
  readonly otherwise: readonly Statement[];
  readonly test: Expression | undefined;
  readonly isRecursive: boolean;
  /** Whether the body looks at `loop`. */
  hasLoop: boolean;
  readonly bodyScope: Scope;
  readonly testScope: Scope;
  readonly otherwiseScope: Scope;
}

/** A condition with its alternatives. */
export interface IfNode {
  readonly kind: 'if';
  readonly line: number;
  readonly test: Expression;
  readonly body: readonly Statement[];
  readonly elifs: readonly IfNode[];
  readonly otherwise: readonly Statement[];
}

/** What macros and call blocks share. */
export interface MacroParts {
  readonly line: number;
  readonly parameters: readonly NameNode[];
  readonly defaults: readonly Expression[];
  readonly body: readonly Statement[];
  readonly scope: Scope;
  takesCaller: boolean;
  takesKwargs: boolean;
  takesVarargs: boolean;
}

/** `{% macro name(…) %}`. */
export interface MacroNode extends MacroParts {
  readonly kind: 'macro';
  readonly name: string;
}

/** `{% call(…) macro(…) %}`. */
export interface CallBlockNode extends MacroParts {
  readonly kind: 'callBlock';
  readonly call: CallNode;
}

/** `{% block name %}`. */
export interface BlockNode {
  readonly kind: 'block';
  readonly line: number;
  readonly name: string;
  readonly isScoped: boolean;
  readonly isRequired: boolean;
  readonly body: readonly Statement[];
  readonly scope: Scope;
  usesSelf: boolean;
  usesSuper: boolean;
}

/** A statement. */
export type Statement =
  | {
      readonly kind: 'output';
      readonly line: number;
      readonly items: readonly (DataNode | Expression)[];
    }
  | {
      readonly kind: 'assign';
      readonly line: number;
      readonly target: Target;
      readonly value: Expression;
    }
  | {
      readonly kind: 'assignBlock';
      readonly line: number;
      readonly target: Target;
      readonly filter: FilterNode | undefined;
      readonly body: readonly Statement[];
      readonly scope: Scope;
    }
  | ForNode
  | IfNode
  | {
      readonly kind: 'with';
      readonly line: number;
      readonly targets: readonly Target[];
      readonly values: readonly Expression[];
      readonly body: readonly Statement[];
      readonly scope: Scope;
    }
  | BlockNode
  | { readonly kind: 'extends'; readonly line: number; readonly template: Expression }
  | {
      readonly kind: 'include';
      readonly line: number;
      readonly template: Expression;
      readonly ignoreMissing: boolean;
      readonly withContext: boolean;
    }
  | {
      readonly kind: 'import';
      readonly line: number;
      readonly template: Expression;
      readonly target: string;
      readonly withContext: boolean;
    }
  | {
      readonly kind: 'fromImport';
      readonly line: number;
      readonly template: Expression;
      /** The name there and the name here. */
      readonly names: readonly (readonly [string, string])[];
      readonly withContext: boolean;
    }
  | MacroNode
  | CallBlockNode
  | {
      readonly kind: 'filterBlock';
      readonly line: number;
      readonly filter: FilterNode;
      readonly body: readonly Statement[];
      readonly scope: Scope;
    }
  | {
      readonly kind: 'scope';
      readonly line: number;
      readonly body: readonly Statement[];
      readonly scope: Scope;
    }
  | { readonly kind: 'do'; readonly line: number; readonly value: Expression }
  | { readonly kind: 'break' | 'continue'; readonly line: number };

// Which names belong to a part of a template, and where their values come from when it is entered
// [jinja2/idtracking.py]. jinja2 decides this before it runs; the small surprises of its rules (a
// block that sets a name reads it as undefined in its own text) are kept.

/** Where a name's value comes from. */
export type NameSource = 'parameter' | 'resolve' | 'alias' | 'undefined';

/** The names of one part; its parent is the part around it. */
export class Scope {
  parent: Scope | undefined;
  loads: Map<string, NameSource>;
  stores: Set<string>;

  constructor(parent?: Scope) {
    this.parent = parent;
    this.loads = new Map();
    this.stores = new Set();
  }

  has(name: string): boolean {
    return this.loads.has(name) || (this.parent?.has(name) ?? false);
  }

  /** The name is read. */
  load(name: string): void {
    if (!this.has(name)) this.loads.set(name, 'resolve');
  }

  /** The name is assigned to. */
  store(name: string): void {
    this.stores.add(name);
    if (this.loads.has(name)) return;
    this.loads.set(name, this.parent?.has(name) === true ? 'alias' : 'undefined');
  }

  /** The name is given its value from outside. */
  declareParameter(name: string): void {
    this.stores.add(name);
    this.loads.set(name, 'parameter');
  }

  copy(): Scope {
    const copy = new Scope(this.parent);
    copy.loads = new Map(this.loads);
    copy.stores = new Set(this.stores);
    return copy;
  }

  /** Brings the branches of a condition together: what only some of them set may come from outside. */
  merge(branches: readonly Scope[]): void {
    const counts = new Map<string, number>();
    for (const name of branches.flatMap((branch) => [...branch.stores])) {
      if (!this.stores.has(name)) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    for (const branch of branches) {
      for (const [name, load] of branch.loads) this.loads.set(name, load);
      for (const name of branch.stores) this.stores.add(name);
    }
    for (const [name, count] of counts) {
      if (count === branches.length) continue;
      this.loads.set(name, this.parent?.has(name) === true ? 'alias' : 'resolve');
    }
  }
}

// The parts of a template's tree in jinja2's order, and the names in them.

/** The expressions directly inside of one. */
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

/** Every name in an expression. */
export function* namesInExpression(node: Expression): Generator<NameNode> {
  if (node.kind === 'name') yield node;
  for (const part of partsOf(node)) yield* namesInExpression(part);
}

/** Every name in what is assigned to; the name of a namespace is read. */
function* namesInTarget(target: Target): Generator<NameNode> {
  if (target.kind === 'name') yield target;
  else if (target.kind === 'targets') {
    for (const item of target.items) yield* namesInTarget(item);
  }
}

/** Every name in statements and what is inside of them; blocks can be left out. */
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

/** An expression, statements, or something that is assigned to. */
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

/** Which of some names are read before anything assigns to them. */
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
