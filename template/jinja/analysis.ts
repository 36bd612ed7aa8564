/** Analyses a template before it runs [jinja2/idtracking.py, jinja2/compiler.py]. */

import { textRepr } from '../python/repr.ts';
import type {
  BlockNode,
  CallBlockNode,
  Expression,
  ForNode,
  MacroNode,
  Statement,
  Target,
} from './ast.ts';
import { namesInExpression, namesInStatements, partsOf, undeclaredIn } from './ast-parts.ts';
import { Scope } from './scope.ts';
import { JinjaSyntaxError } from './string-literal.ts';

/** Names of the filters and tests that exist. */
interface KnownNames {
  readonly filters: { has(name: string): boolean };
  readonly tests: { has(name: string): boolean };
}

/** Result of the analysis of a template. */
interface TemplateAnalysis {
  readonly scope: Scope;
  readonly usesSelf: boolean;
  readonly blocks: ReadonlyMap<string, BlockNode>;
  readonly hasExtends: boolean;
}

interface AnalysisContext {
  readonly scope: Scope;
  readonly isTop: boolean;
  /** Whether an unknown filter is an error only when it is used. True inside a condition. */
  readonly isSoft: boolean;
  readonly isInLoop: boolean;
}

/**
 * Analyses a template.
 * @throws JinjaSyntaxError
 */
export function analyseTemplate(body: readonly Statement[], known: KnownNames): TemplateAnalysis {
  return new Analyser(known).run(body);
}

class Analyser {
  readonly #known: KnownNames;
  readonly #blocks = new Map<string, BlockNode>();
  #hasExtends = false;

  constructor(known: KnownNames) {
    this.#known = known;
  }

  run(body: readonly Statement[]): TemplateAnalysis {
    const scope = new Scope();
    const usesSelf = undeclaredIn(body, ['self']).has('self');
    if (usesSelf) scope.declareParameter('self');
    collectAll(scope, body);
    this.#descendAll(body, { scope, isTop: true, isSoft: false, isInLoop: false });
    for (const block of this.#blocks.values()) this.#block(block);
    return { scope, usesSelf, blocks: this.#blocks, hasExtends: this.#hasExtends };
  }

  #block(block: BlockNode): void {
    const undeclared = undeclaredIn(block.body, ['self', 'super']);
    block.usesSelf = undeclared.has('self');
    block.usesSuper = undeclared.has('super');
    for (const name of undeclared) block.scope.declareParameter(name);
    collectAll(block.scope, block.body);
    this.#descendAll(block.body, inner(block.scope, false));
  }

  #descendAll(statements: readonly Statement[], place: AnalysisContext): void {
    for (const statement of statements) this.#descend(statement, place);
  }

  #descend(statement: Statement, place: AnalysisContext): void {
    switch (statement.kind) {
      case 'output':
        for (const item of statement.items) {
          if (item.kind !== 'data') this.#check(item, place.isSoft);
        }
        return;
      case 'assign':
        this.#check(statement.value, place.isSoft);
        return;
      case 'do':
        this.#check(statement.value, place.isSoft);
        return;
      case 'extends':
        if (!place.isTop) {
          fail('cannot use extend from a non top-level scope', statement.line);
        }
        this.#hasExtends = true;
        this.#check(statement.template, place.isSoft);
        return;
      case 'include':
      case 'import':
      case 'fromImport':
        this.#check(statement.template, place.isSoft);
        return;
      case 'assignBlock':
        this.#part(statement.scope, statement.body, place);
        if (statement.filter !== undefined) this.#filterNames(statement.scope, statement.filter);
        return;
      case 'filterBlock':
        this.#part(statement.scope, statement.body, place);
        this.#filterNames(statement.scope, statement.filter);
        return;
      case 'scope':
        this.#part(statement.scope, statement.body, place);
        return;
      case 'for':
        this.#for(statement, place);
        return;
      case 'if': {
        const soft = { ...place, isSoft: true };
        this.#check(statement.test, true);
        this.#descendAll(statement.body, soft);
        this.#descendAll(statement.elifs, soft);
        this.#descendAll(statement.otherwise, soft);
        return;
      }
      case 'with':
        for (const value of statement.values) this.#check(value, place.isSoft);
        statement.scope.parent = place.scope;
        for (const target of statement.targets) collectTarget(statement.scope, target);
        this.#part(statement.scope, statement.body, place);
        return;
      case 'block':
        this.#declareBlock(statement, place);
        return;
      case 'callBlock':
        this.#check(statement.call, place.isSoft);
        this.#macro(statement, place);
        return;
      case 'macro':
        this.#macro(statement, place);
        return;
      case 'break':
      case 'continue':
        if (!place.isInLoop) failPython(`'${statement.kind}' outside loop`, statement.line);
    }
  }

  #part(scope: Scope, body: readonly Statement[], place: AnalysisContext): void {
    scope.parent = place.scope;
    collectAll(scope, body);
    this.#descendAll(body, inner(scope, place.isInLoop));
  }

  #filterNames(scope: Scope, filter: Expression): void {
    collectExpression(scope, filter);
    this.#check(filter, false);
  }

  #declareBlock(block: BlockNode, place: AnalysisContext): void {
    if (this.#blocks.has(block.name)) {
      fail(`block ${textRepr(block.name)} defined twice`, block.line);
    }
    this.#blocks.set(block.name, block);
    this.#findBlocks(block.body, place);
  }

  /** Finds all blocks of the template, including nested ones. */
  #findBlocks(statements: readonly Statement[], place: AnalysisContext): void {
    for (const statement of statements) {
      if (statement.kind === 'block') this.#declareBlock(statement, place);
      for (const body of bodiesOf(statement)) this.#findBlocks(body, place);
    }
  }

  #for(node: ForNode, place: AnalysisContext): void {
    const { bodyScope, testScope, otherwiseScope } = node;
    for (const scope of [bodyScope, testScope, otherwiseScope]) scope.parent = place.scope;
    node.hasLoop =
      node.isRecursive ||
      undeclaredIn(node.body, ['loop']).has('loop') ||
      hasScopedBlock(node.body);
    if (node.hasLoop) bodyScope.declareParameter('loop');
    for (const name of namesInStatements([node], true)) {
      if (name.use === 'store' && name.name === 'loop') {
        fail("Can't assign to special loop variable in for-loop target", name.line);
      }
    }
    declareTarget(bodyScope, node.target);
    collectAll(bodyScope, node.body);
    collectAll(otherwiseScope, node.otherwise);
    if (node.test !== undefined) {
      declareTarget(testScope, node.target);
      collectExpression(testScope, node.test);
      this.#check(node.test, false);
    }
    this.#check(node.iterable, place.isSoft);
    this.#descendAll(node.body, inner(bodyScope, true));
    this.#descendAll(node.otherwise, inner(otherwiseScope, place.isInLoop && !node.isRecursive));
  }

  #macro(node: MacroNode | CallBlockNode, place: AnalysisContext): void {
    const { scope, parameters, defaults, body } = node;
    scope.parent = place.scope;
    const names = parameters.map(({ name }) => name);
    const undeclared = undeclaredIn(body, ['caller', 'kwargs', 'varargs']);
    for (const name of names) scope.declareParameter(name);
    for (const value of defaults) collectExpression(scope, value);
    collectAll(scope, body);
    node.takesCaller = undeclared.has('caller');
    node.takesKwargs = undeclared.has('kwargs') && !names.includes('kwargs');
    node.takesVarargs = undeclared.has('varargs') && !names.includes('varargs');
    const caller = names.indexOf('caller');
    if (node.takesCaller && caller >= 0 && caller < names.length - defaults.length) {
      fail(
        'When defining macros or call blocks the special "caller" argument must be omitted or be given a default.',
        node.line,
      );
    }
    if (node.takesCaller) scope.declareParameter('caller');
    if (node.takesKwargs) scope.declareParameter('kwargs');
    if (node.takesVarargs) scope.declareParameter('varargs');
    for (const value of defaults) this.#check(value, false);
    this.#descendAll(body, inner(scope, false));
  }

  /**
   * Checks the filters and tests of an expression.
   * @throws JinjaSyntaxError for an unknown filter or test
   */
  #check(node: Expression, isSoft: boolean): void {
    if (node.kind === 'filter' && !isSoft && !this.#known.filters.has(node.name)) {
      fail(`No filter named ${textRepr(node.name)}.`, node.line);
    }
    if (node.kind === 'test' && !isSoft && !this.#known.tests.has(node.name)) {
      fail(`No test named ${textRepr(node.name)}.`, node.line);
    }
    const isInnerSoft = isSoft || node.kind === 'conditional';
    for (const part of partsOf(node)) this.#check(part, isInnerSoft);
  }
}

function inner(scope: Scope, isInLoop: boolean): AnalysisContext {
  return { scope, isTop: false, isSoft: false, isInLoop };
}

function bodiesOf(statement: Statement): readonly (readonly Statement[])[] {
  switch (statement.kind) {
    case 'assignBlock':
    case 'with':
    case 'macro':
    case 'callBlock':
    case 'filterBlock':
    case 'scope':
      return [statement.body];
    case 'for':
      return [statement.body, statement.otherwise];
    case 'if':
      return [statement.body, statement.elifs, statement.otherwise];
    default:
      return [];
  }
}

function hasScopedBlock(statements: readonly Statement[]): boolean {
  return statements.some(
    (statement) =>
      (statement.kind === 'block' && (statement.isScoped || hasScopedBlock(statement.body))) ||
      bodiesOf(statement).some(hasScopedBlock),
  );
}

function collectAll(scope: Scope, statements: readonly Statement[]): void {
  for (const statement of statements) collect(scope, statement);
}

/** Adds the names that a statement reads or sets to the given scope. */
function collect(scope: Scope, statement: Statement): void {
  switch (statement.kind) {
    case 'output':
      for (const item of statement.items) {
        if (item.kind !== 'data') collectExpression(scope, item);
      }
      return;
    case 'assign':
      collectExpression(scope, statement.value);
      collectTarget(scope, statement.target);
      return;
    case 'assignBlock':
      collectTarget(scope, statement.target);
      return;
    case 'for':
      collectExpression(scope, statement.iterable);
      return;
    case 'if': {
      collectExpression(scope, statement.test);
      const branches = [statement.body, statement.elifs, statement.otherwise].map((branch) => {
        const copy = scope.copy();
        collectAll(copy, branch);
        return copy;
      });
      scope.merge(branches);
      return;
    }
    case 'with':
      for (const value of statement.values) collectExpression(scope, value);
      return;
    case 'extends':
    case 'include':
      collectExpression(scope, statement.template);
      return;
    case 'import':
      collectExpression(scope, statement.template);
      scope.store(statement.target);
      return;
    case 'fromImport':
      collectExpression(scope, statement.template);
      for (const [, alias] of statement.names) scope.store(alias);
      return;
    case 'macro':
      scope.store(statement.name);
      return;
    case 'callBlock':
      collectExpression(scope, statement.call);
      return;
    case 'filterBlock':
      collectExpression(scope, statement.filter);
      return;
    case 'do':
      collectExpression(scope, statement.value);
      return;
    case 'block':
    case 'scope':
    case 'break':
    case 'continue':
      return;
  }
}

function collectExpression(scope: Scope, node: Expression): void {
  for (const { name } of namesInExpression(node)) scope.load(name);
}

function collectTarget(scope: Scope, target: Target): void {
  if (target.kind === 'namespace') scope.load(target.name);
  else if (target.kind === 'targets') {
    for (const item of target.items) collectTarget(scope, item);
  } else if (target.use === 'parameter') scope.declareParameter(target.name);
  else scope.store(target.name);
}

function declareTarget(scope: Scope, target: Target): void {
  if (target.kind === 'name') scope.declareParameter(target.name);
  else if (target.kind === 'targets') {
    for (const item of target.items) declareTarget(scope, item);
  }
}

function fail(message: string, line: number): never {
  throw new JinjaSyntaxError(message, line, 'TemplateAssertionError');
}

function failPython(message: string, line: number): never {
  throw new JinjaSyntaxError(message, line, 'SyntaxError');
}
