/**
 * Names that belong to a part of a template, and the sources of their values when it is entered
 * [jinja2/idtracking.py]. jinja2 decides this before it runs; the small surprises of its rules (a
 * block that sets a name reads it as undefined in its own text) are kept.
 */

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
