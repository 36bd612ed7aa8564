/**
 * Scopes of a template: names, and the sources of their values [jinja2/idtracking.py]. As in
 * jinja2, scopes are determined before the template runs. For example, if a block assigns a name
 * only after a loop in this block, the name is undefined in the loop.
 */

/** Source of a name's initial value. */
export type NameSource = 'parameter' | 'resolve' | 'alias' | 'undefined';

/** Variables of one block of a template. The parent is the scope of the enclosing block. */
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

  /** Marks a name as read. */
  load(name: string): void {
    if (!this.has(name)) this.loads.set(name, 'resolve');
  }

  /** Marks a name as assigned. */
  store(name: string): void {
    this.stores.add(name);
    if (this.loads.has(name)) return;
    this.loads.set(name, this.parent?.has(name) === true ? 'alias' : 'undefined');
  }

  /** Marks a name as a parameter. The caller passes its value. */
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

  /**
   * Merges the scopes of the branches of a condition. If only some branches set a name, its value
   * may come from an outer scope.
   */
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
