/**
 * Contexts and frames, which hold the values of names while a template runs [jinja2/runtime.py].
 */

import type { Undefined, Value } from '../python/values.ts';
import type { BlockNode } from './ast.ts';
import type { NameLookup, Rendering } from './rendering.ts';
import type { Scope } from './scope.ts';
import type { Template } from './template.ts';

/** A block and the template that defines it. */
export interface BlockDefinition {
  readonly node: BlockNode;
  readonly template: Template;
}

/**
 * Context of a template: the names that were passed to it, the names that it has set, and its
 * blocks.
 */
export class Context {
  readonly parent: NameLookup;
  readonly vars: Map<string, Value> = new Map();
  readonly exported: Set<string> = new Set();
  /** Definitions of the blocks by name. The definition of the most derived template is first. */
  readonly blocks: Map<string, BlockDefinition[]> = new Map();

  constructor(parent: NameLookup) {
    this.parent = parent;
  }

  get(name: string): Value | undefined {
    return this.vars.get(name) ?? (this.vars.has(name) ? null : this.parent.get(name));
  }

  addBlocks(template: Template): void {
    for (const [name, node] of template.blocks) {
      const known = this.blocks.get(name);
      if (known === undefined) this.blocks.set(name, [{ node, template }]);
      else known.push({ node, template });
    }
  }

  /** Returns a context with additional names. */
  derive(locals: ReadonlyMap<string, Value>): Context {
    const derived = new Context(layeredNames(locals, this));
    for (const [name, blocks] of this.blocks) derived.blocks.set(name, [...blocks]);
    return derived;
  }
}

/** Combines two sets of names. If both contain a name, the value in `upper` is used. */
export function layeredNames(upper: ReadonlyMap<string, Value>, lower: NameLookup): NameLookup {
  return { get: (name) => (upper.has(name) ? (upper.get(name) ?? null) : lower.get(name)) };
}

/** State that the frames of one run of a template share. */
export interface TemplateRun {
  readonly rendering: Rendering;
  readonly template: Template;
  readonly context: Context;
  /** The template that this one extends. Set when `extends` has run. */
  extended: Template | undefined;
}

/** Properties of a frame. */
export interface FrameKind {
  /** Whether the template exports the names that are set in this frame. */
  readonly isTop: boolean;
  /** Whether output is suppressed because the template has executed `extends`. */
  readonly isSilenced: boolean;
}

/** Values of the names in a {@link Scope}, while this part of the template runs. */
export class Frame {
  readonly run: TemplateRun;
  readonly scope: Scope;
  readonly parent: Frame | undefined;
  readonly kind: FrameKind;
  readonly #values = new Map<string, Value | undefined>();

  constructor(run: TemplateRun, scope: Scope, parent: Frame | undefined, kind: FrameKind) {
    this.run = run;
    this.scope = scope;
    this.parent = parent;
    this.kind = kind;
    this.enter();
  }

  /** Creates a frame for a nested part of the template. */
  inner(scope: Scope, isSilenced: boolean = this.kind.isSilenced): Frame {
    return new Frame(this.run, scope, this, { isTop: false, isSilenced });
  }

  /**
   * Gives the names of this frame their initial values. Names from outer frames get the values that
   * they have there now. A loop does this in each iteration.
   */
  enter(): void {
    for (const [name, load] of this.scope.loads) {
      switch (load) {
        case 'resolve':
          this.#values.set(name, this.run.context.get(name));
          break;
        case 'alias':
          this.#values.set(name, this.parent?.lookup(name));
          break;
        case 'undefined':
          this.#values.set(name, undefined);
          break;
        case 'parameter':
          if (!this.#values.has(name)) this.#values.set(name, undefined);
      }
    }
  }

  /**
   * Removes the values of this frame's names. jinja2 does the same when a scope ends, for example
   * the body of a loop or a filter block.
   */
  leave(): void {
    for (const name of this.scope.loads.keys()) this.#values.set(name, undefined);
  }

  lookup(name: string): Value | undefined {
    if (this.#values.has(name)) return this.#values.get(name);
    return this.parent?.lookup(name);
  }

  /** Returns the value of a name, or an undefined value. */
  read(name: string): Value | Undefined {
    const value = this.lookup(name);
    return value === undefined ? this.run.rendering.undefinedName(name) : value;
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }

  /** Returns the names set in this frame and its parents. */
  locals(): Map<string, Value> {
    const locals = this.parent?.locals() ?? new Map<string, Value>();
    for (const name of this.scope.stores) {
      const value = this.lookup(name);
      if (value !== undefined) locals.set(name, value);
    }
    return locals;
  }
}
