/** Contexts and frames: the values of names while a template runs [jinja2/runtime.py]. */

import type { Undefined, Value } from '../python/values.ts';
import type { BlockNode } from './ast.ts';
import type { NameLookup, Rendering } from './rendering.ts';
import type { Scope } from './scope.ts';
import type { Template } from './template.ts';

/** A block and the template that it is written in. */
export interface BlockDefinition {
  readonly node: BlockNode;
  readonly template: Template;
}

/** What a template knows: the names given to it, those it set, and its blocks. */
export class Context {
  readonly parent: NameLookup;
  readonly vars: Map<string, Value> = new Map();
  readonly exported: Set<string> = new Set();
  /** For each name the blocks of the template and those it extends, the youngest first. */
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

  /** A context that sees this one and more. */
  derive(locals: ReadonlyMap<string, Value>): Context {
    const derived = new Context(layeredNames(locals, this));
    for (const [name, blocks] of this.blocks) derived.blocks.set(name, [...blocks]);
    return derived;
  }
}

/** Names over other names. */
export function layeredNames(upper: ReadonlyMap<string, Value>, lower: NameLookup): NameLookup {
  return { get: (name) => (upper.has(name) ? (upper.get(name) ?? null) : lower.get(name)) };
}

/** One run of a template: what its frames share. */
export interface TemplateRun {
  readonly rendering: Rendering;
  readonly template: Template;
  readonly context: Context;
  /** The template it extends, once that is known. */
  extended: Template | undefined;
}

/** How a frame lies in its template. */
export interface FrameKind {
  /** Whether names that are set here belong to the template. */
  readonly isTop: boolean;
  /** Whether text is left out once the template extends another. */
  readonly isSilenced: boolean;
}

/** The values of a {@link Scope} while it is open. */
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

  /** A frame for a part of the template inside of this one. */
  inner(scope: Scope, isSilenced: boolean = this.kind.isSilenced): Frame {
    return new Frame(this.run, scope, this, { isTop: false, isSilenced });
  }

  /** Fetches what comes from outside; a loop does so at each turn. */
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

  /** Forgets all, as jinja2 does at the end of a part. */
  leave(): void {
    for (const name of this.scope.loads.keys()) this.#values.set(name, undefined);
  }

  lookup(name: string): Value | undefined {
    if (this.#values.has(name)) return this.#values.get(name);
    return this.parent?.lookup(name);
  }

  /** The value, or one that is undefined. */
  read(name: string): Value | Undefined {
    const value = this.lookup(name);
    return value === undefined ? this.run.rendering.undefinedName(name) : value;
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }

  /** The names that were set in this frame and those around it. */
  locals(): Map<string, Value> {
    const locals = this.parent?.locals() ?? new Map<string, Value>();
    for (const name of this.scope.stores) {
      const value = this.lookup(name);
      if (value !== undefined) locals.set(name, value);
    }
    return locals;
  }
}
