/** Executes statements and renders their text. */

import { PythonException } from '../python/exceptions.ts';
import { countedMarkLength, LateValue, readLate } from '../python/late.ts';
import { str, textRepr } from '../python/repr.ts';
import { isTruthy, iterate } from '../python/sequences.ts';
import { Lazy, Tuple, type Value } from '../python/values.ts';
import { assign, assignLocal, importName, setName } from './assign.ts';
import type { BlockNode, ForNode, IfNode, MacroParts, Statement } from './ast.ts';
import {
  callNode,
  evaluate,
  evaluateLate,
  extendedTwice,
  filterBlock,
  Macro,
  outputText,
} from './evaluate.ts';
import { Context, Frame, layeredNames, type TemplateRun } from './frame.ts';
import { BlockReference, Loop, Module, TemplateReference } from './objects.ts';
import { isTemplateMissing, type Rendering } from './rendering.ts';
import type { Template } from './template.ts';

/** Collects rendered text. */
class Output {
  /**
   * Whether the text may contain placeholders of late values: values that a template outputs
   * without reading them. False for text that the template itself can read, such as the text of a
   * macro.
   */
  readonly takesMarks: boolean;
  readonly #parts: string[] = [];
  readonly #rendering: Rendering;

  constructor(rendering: Rendering, takesMarks = false) {
    this.#rendering = rendering;
    this.takesMarks = takesMarks;
  }

  write(text: string): void {
    this.#rendering.meter.text(text.length);
    this.#parts.push(text);
  }

  /**
   * Writes a placeholder. Counts the length of the longest value that can replace the placeholder.
   * The limit on characters therefore holds for every value.
   */
  writeMark(mark: string): void {
    this.#rendering.meter.text(countedMarkLength);
    this.#parts.push(mark);
  }

  text(): string {
    return this.#parts.join('');
  }
}

/** Way in which a list of statements ended: normally, or by `break` or `continue` of a loop. */
type Completion = 'normal' | 'break' | 'continue';

/**
 * Renders a template from its beginning.
 * @param takesMarks - whether the rendered text may contain placeholders instead of values that the
 * template outputs without reading them (`LateValue`). Default: false
 * @throws PythonException, LimitExceeded, UnsupportedFeature
 */
export function renderRoot(
  rendering: Rendering,
  template: Template,
  context: Context,
  takesMarks = false,
): string {
  const output = new Output(rendering, takesMarks);
  runRoot(rendering, template, context, output);
  return output.text();
}

function runRoot(rendering: Rendering, template: Template, context: Context, output: Output): void {
  rendering.meter.enter();
  const { file, line } = rendering;
  rendering.file = template.name;
  const run: TemplateRun = { rendering, template, context, extended: undefined };
  const kind = { isTop: true, isSilenced: template.hasExtends };
  const frame = new Frame(run, template.scope, undefined, kind);
  if (template.usesSelf) frame.set('self', selfReference(run));
  execute(template.body, frame, output);
  if (run.extended !== undefined) runRoot(rendering, run.extended, context, output);
  rendering.file = file;
  rendering.line = line;
  rendering.meter.leave();
}

function execute(statements: readonly Statement[], frame: Frame, output: Output): Completion {
  for (const statement of statements) {
    const completion = executeOne(statement, frame, output);
    if (completion !== 'normal') return completion;
  }
  return 'normal';
}

function executeOne(statement: Statement, frame: Frame, output: Output): Completion {
  const { rendering } = frame.run;
  rendering.meter.step();
  rendering.line = statement.line;
  switch (statement.kind) {
    case 'output':
      print(statement.items, frame, output);
      return 'normal';
    case 'if':
      return condition(statement, frame, output);
    case 'for':
      return loop(statement, frame, output);
    case 'assign':
      assign(statement.target, assigned(statement, frame), frame);
      return 'normal';
    case 'assignBlock': {
      const inner = frame.inner(statement.scope, false);
      const { text, completion } = capture(statement.body, inner);
      if (completion !== 'normal') return completion;
      const { filter } = statement;
      const value = filter === undefined ? text : filterBlock(filter, text, inner);
      assign(statement.target, value, frame);
      inner.leave();
      return 'normal';
    }
    case 'with': {
      const inner = frame.inner(statement.scope);
      for (const [index, target] of statement.targets.entries()) {
        const value = statement.values[index];
        if (value !== undefined) assign(target, evaluate(value, frame), inner);
      }
      return executePart(statement.body, inner, output);
    }
    case 'scope':
      return executePart(statement.body, frame.inner(statement.scope), output);
    case 'do':
      evaluate(statement.value, frame);
      return 'normal';
    case 'macro':
      setName(statement.name, new Macro(statement.name, statement, frame, renderMacro), frame);
      return 'normal';
    case 'callBlock': {
      const caller = new Macro('caller', statement, frame, renderMacro);
      output.write(outputText(statement.call, callNode(statement.call, caller, frame), frame));
      return 'normal';
    }
    case 'filterBlock': {
      const inner = frame.inner(statement.scope);
      const { text, completion } = capture(statement.body, inner);
      if (completion !== 'normal') return completion;
      output.write(str(filterBlock(statement.filter, text, inner)));
      inner.leave();
      return 'normal';
    }
    case 'block':
      if (!frame.kind.isTop || frame.run.extended === undefined) {
        showBlock(statement, frame, output);
      }
      return 'normal';
    case 'extends':
      extend(statement, frame);
      return 'normal';
    case 'include':
      include(statement, frame, output);
      return 'normal';
    case 'import': {
      const module = importModule(statement.template, statement.withContext, frame);
      importName(statement.target, module, frame);
      return 'normal';
    }
    case 'fromImport':
      importNames(statement, frame);
      return 'normal';
    case 'break':
    case 'continue':
      return statement.kind;
  }
}

function executePart(statements: readonly Statement[], frame: Frame, output: Output): Completion {
  const completion = execute(statements, frame, output);
  frame.leave();
  return completion;
}

function capture(
  statements: readonly Statement[],
  frame: Frame,
): { text: string; completion: Completion } {
  const output = new Output(frame.run.rendering);
  const completion = execute(statements, frame, output);
  return { text: output.text(), completion };
}

function renderMacro(node: MacroParts, frame: Frame): string {
  return capture(node.body, frame).text;
}

function print(
  items: (Statement & { readonly kind: 'output' })['items'],
  frame: Frame,
  output: Output,
): void {
  if (isSilent(frame)) return;
  for (const item of items) {
    if (item.kind === 'data') {
      output.write(item.text);
      continue;
    }
    frame.run.rendering.line = item.line;
    const value = output.takesMarks ? evaluateLate(item, frame) : evaluate(item, frame);
    const mark = value instanceof LateValue ? value.mark() : undefined;
    if (mark === undefined) output.write(outputText(item, readLate(value), frame));
    else output.writeMark(mark);
  }
}

/**
 * Evaluates the right side of an assignment. If the left side is a single name, the result may be a
 * `LateValue`: a value that the template has not read yet.
 */
function assigned({ target, value }: Statement & { readonly kind: 'assign' }, frame: Frame): Value {
  return target.kind === 'name' ? evaluateLate(value, frame) : evaluate(value, frame);
}

/** Whether output is suppressed. After `extends`, a template outputs only its blocks. */
function isSilent({ kind, run }: Frame): boolean {
  return kind.isSilenced && run.extended !== undefined;
}

function condition(node: IfNode, frame: Frame, output: Output): Completion {
  const { rendering } = frame.run;
  for (const branch of [node, ...node.elifs]) {
    rendering.line = branch.line;
    if (isTruthy(evaluate(branch.test, frame))) return execute(branch.body, frame, output);
  }
  return execute(node.otherwise, frame, output);
}

function loop(node: ForNode, frame: Frame, output: Output): Completion {
  const iterable = evaluate(node.iterable, frame);
  if (!node.isRecursive) return runLoop(node, iterable, frame, output, 0);
  output.write(recurse(node, frame, iterable, 0));
  return 'normal';
}

function recurse(node: ForNode, frame: Frame, iterable: Value, depth: number): string {
  const { rendering } = frame.run;
  rendering.meter.enter();
  const output = new Output(rendering);
  runLoop(node, iterable, frame, output, depth);
  rendering.meter.leave();
  return output.text();
}

function runLoop(
  node: ForNode,
  iterable: Value,
  outer: Frame,
  output: Output,
  depth0: number,
): Completion {
  const { rendering } = outer.run;
  const { meter, isStrict } = rendering;
  const source = node.test === undefined ? iterable : filtered(node, iterable, outer);
  const frame = outer.inner(node.bodyScope);
  const recursion = node.isRecursive
    ? (inner: Value, depth: number) => recurse(node, outer, inner, depth)
    : undefined;
  const items = new Loop(source, { recurse: recursion, depth0, isStrict, meter });
  let isEmpty = true;
  for (let item = items.next(); item !== undefined; item = items.next()) {
    meter.step();
    assignLocal(node.target, item, frame);
    if (node.hasLoop) frame.set('loop', items);
    frame.enter();
    const completion = execute(node.body, frame, output);
    if (completion === 'break') break;
    // As in jinja2, the `else` of a loop also runs if each iteration ended with `break` or
    // `continue`.
    if (completion === 'normal') isEmpty = false;
    rendering.line = node.line;
  }
  frame.leave();
  if (!isEmpty || node.otherwise.length === 0) return 'normal';
  return executePart(node.otherwise, outer.inner(node.otherwiseScope), output);
}

function filtered(node: ForNode, iterable: Value, outer: Frame): Lazy {
  return new Lazy(passing(node, iterable, outer));
}

function* passing(node: ForNode, iterable: Value, outer: Frame): Generator<Value> {
  const { test } = node;
  const frame = outer.inner(node.testScope);
  const iterator = iterate(iterable);
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
    frame.run.rendering.meter.step();
    assignLocal(node.target, next.value, frame);
    if (test === undefined || isTruthy(evaluate(test, frame))) yield next.value;
  }
}

function showBlock(node: BlockNode, frame: Frame, output: Output): void {
  const { run } = frame;
  const context = node.isScoped ? run.context.derive(frame.locals()) : run.context;
  const blocks = context.blocks.get(node.name) ?? [];
  if (node.isRequired && blocks.length <= 1) {
    throw new PythonException(
      'TemplateRuntimeError',
      `Required block ${textRepr(node.name)} not found`,
    );
  }
  output.write(renderBlock(run.rendering, context, node.name, 0));
}

function renderBlock(rendering: Rendering, context: Context, name: string, depth: number): string {
  const block = context.blocks.get(name)?.[depth];
  if (block === undefined) return '';
  rendering.meter.enter();
  const { file, line } = rendering;
  rendering.file = block.template.name;
  const run: TemplateRun = { rendering, template: block.template, context, extended: undefined };
  const frame = new Frame(run, block.node.scope, undefined, { isTop: false, isSilenced: false });
  if (block.node.usesSelf) frame.set('self', selfReference(run));
  if (block.node.usesSuper) {
    frame.set('super', blockReference(run, name, depth + 1) ?? noParent(rendering, name));
  }
  const { text } = capture(block.node.body, frame);
  rendering.file = file;
  rendering.line = line;
  rendering.meter.leave();
  return text;
}

function noParent(rendering: Rendering, name: string): Value {
  return rendering.undefinedBecause(`there is no parent block called ${textRepr(name)}.`);
}

function blockReference(
  { rendering, context }: TemplateRun,
  name: string,
  depth: number,
): Value | undefined {
  const count = context.blocks.get(name)?.length ?? 0;
  if (depth >= count) return undefined;
  return new BlockReference(
    (at) => renderBlock(rendering, context, name, at),
    depth,
    count,
    () => rendering.undefinedBecause(`there is no parent block called ${textRepr(name)}.`),
  );
}

function selfReference(run: TemplateRun): Value {
  return new TemplateReference((name) => blockReference(run, name, 0));
}

function extend(statement: Statement & { readonly kind: 'extends' }, frame: Frame): void {
  const { run } = frame;
  if (run.extended !== undefined) throw extendedTwice();
  run.extended = run.rendering.template(evaluate(statement.template, frame));
  run.context.addBlocks(run.extended);
}

function include(
  statement: Statement & { readonly kind: 'include' },
  frame: Frame,
  output: Output,
): void {
  const { rendering, context } = frame.run;
  const template = findIncluded(statement, frame);
  if (template === undefined) return;
  if (!statement.withContext) {
    output.write(defaultModule(rendering, template).text);
    return;
  }
  const inner = new Context(layeredNames(frame.locals(), context));
  inner.addBlocks(template);
  runRoot(rendering, template, inner, output);
}

function findIncluded(
  statement: Statement & { readonly kind: 'include' },
  frame: Frame,
): Template | undefined {
  const name = evaluate(statement.template, frame);
  const { rendering } = frame.run;
  const { line } = rendering;
  try {
    if (name instanceof Tuple) return rendering.firstTemplate(name.items);
    return Array.isArray(name) ? rendering.firstTemplate(name) : rendering.template(name);
  } catch (error) {
    const isIgnored =
      statement.ignoreMissing && error instanceof PythonException && isTemplateMissing(error);
    if (!isIgnored || error.kind === 'UndefinedError') throw error;
    rendering.line = line;
    return undefined;
  }
}

function importModule(
  template: (Statement & { readonly kind: 'import' })['template'],
  withContext: boolean,
  frame: Frame,
): Module {
  const { rendering, context } = frame.run;
  const imported = rendering.template(evaluate(template, frame));
  if (!withContext) return defaultModule(rendering, imported);
  return makeModule(rendering, imported, new Context(layeredNames(frame.locals(), context)));
}

function defaultModule(rendering: Rendering, template: Template): Module {
  const known = rendering.modules.get(template);
  if (known !== undefined) return known;
  const module = makeModule(rendering, template, new Context(rendering.globals()));
  rendering.modules.set(template, module);
  return module;
}

function makeModule(rendering: Rendering, template: Template, context: Context): Module {
  context.addBlocks(template);
  const text = renderRoot(rendering, template, context);
  const exported = new Map<string, Value>();
  for (const name of context.exported) exported.set(name, context.vars.get(name) ?? null);
  return new Module(template.name, text, exported);
}

function importNames(statement: Statement & { readonly kind: 'fromImport' }, frame: Frame): void {
  const module = importModule(statement.template, statement.withContext, frame);
  for (const [name, alias] of statement.names) {
    const value = module.exported(name);
    importName(
      alias,
      value === undefined ? notExported(module, name, statement.line, frame) : value,
      frame,
    );
  }
}

function notExported(module: Module, name: string, line: number, frame: Frame): Value {
  const { rendering, template } = frame.run;
  return rendering.undefinedBecause(
    `the template ${textRepr(module.name)} (imported on line ${line} in ${textRepr(template.name)}) does not export the requested name ${textRepr(name)}`,
  );
}
