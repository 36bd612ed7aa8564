/** Syntax tree of a template, in source order, with the scopes of its names. */

import type { BinaryOperator } from '../python/operators.ts';
import type { Value } from '../python/values.ts';
import type { Scope } from './scope.ts';

/** An expression. `line` is the line number that jinja2 would report. */
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

/** Operator of a comparison. */
export type CompareOperator = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in';

/** A name that is read, assigned, or declared as a parameter. */
export interface NameNode {
  readonly kind: 'name';
  readonly line: number;
  readonly name: string;
  readonly use: 'load' | 'store' | 'parameter';
}

/** Arguments of a call, as written. */
export interface CallArguments {
  readonly positional: readonly Expression[];
  readonly named: readonly (readonly [string, Expression])[];
  readonly morePositional: Expression | undefined;
  readonly moreNamed: Expression | undefined;
}

/** A call: `target(…)`. */
export interface CallNode extends CallArguments {
  readonly kind: 'call';
  readonly line: number;
  readonly target: Expression;
}

/** A filter: `target|name(…)`. If `target` is absent, the filter applies to the text of a block. */
export interface FilterNode extends CallArguments {
  readonly kind: 'filter';
  readonly line: number;
  readonly target: Expression | undefined;
  readonly name: string;
}

/** A test: `target is name(…)`. */
interface TestNode extends CallArguments {
  readonly kind: 'test';
  readonly line: number;
  readonly target: Expression;
  readonly name: string;
}

/** Target of an assignment. */
export type Target =
  | NameNode
  | { readonly kind: 'targets'; readonly line: number; readonly items: readonly Target[] }
  | {
      readonly kind: 'namespace';
      readonly line: number;
      readonly name: string;
      readonly attribute: string;
    };

/** Literal text of the template. */
export interface DataNode {
  readonly kind: 'data';
  readonly line: number;
  readonly text: string;
}

/** A `for` loop. The body, the `if` condition and the `else` branch each have their own scope. */
export interface ForNode {
  readonly kind: 'for';
  readonly line: number;
  readonly target: Target;
  readonly iterable: Expression;
  readonly body: readonly Statement[];
  readonly otherwise: readonly Statement[];
  readonly test: Expression | undefined;
  readonly isRecursive: boolean;
  /** Whether the body uses `loop`. */
  hasLoop: boolean;
  readonly bodyScope: Scope;
  readonly testScope: Scope;
  readonly otherwiseScope: Scope;
}

/** A condition with its branches. */
export interface IfNode {
  readonly kind: 'if';
  readonly line: number;
  readonly test: Expression;
  readonly body: readonly Statement[];
  readonly elifs: readonly IfNode[];
  readonly otherwise: readonly Statement[];
}

/** Properties that macros and call blocks have in common. */
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

/** A macro: `{% macro name(…) %}`. */
export interface MacroNode extends MacroParts {
  readonly kind: 'macro';
  readonly name: string;
}

/** A call block: `{% call(…) macro(…) %}`. */
export interface CallBlockNode extends MacroParts {
  readonly kind: 'callBlock';
  readonly call: CallNode;
}

/** A block: `{% block name %}`. */
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
      /**
       * Imported names. Each pair has the name in the imported template, and the name in this
       * template.
       */
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
