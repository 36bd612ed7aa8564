/** The plans of a bridge, by name. */
import type { Catalog } from '../catalog/catalog.ts';
import { refuse } from '../catalog/definition.ts';
import { BridgeError } from '../errors.ts';
import { type CompiledPlan, compilePlan } from './compile-plan.ts';
import type { PlanDefinition } from './definition.ts';

/** Plans that can be run. */
export class PlanBook {
  readonly #plans: ReadonlyMap<string, CompiledPlan>;

  /** @throws BridgeError ERR_CATALOG */
  constructor(definitions: readonly PlanDefinition[], catalog: Catalog) {
    const plans = new Map<string, CompiledPlan>();
    for (const definition of definitions) {
      const { name } = definition;
      if (plans.has(name)) throw refuse(name, '', 'there is a plan of this name already');
      plans.set(name, compilePlan(definition, catalog));
    }
    this.#plans = plans;
  }

  /** In the order of their names. */
  list(): readonly CompiledPlan[] {
    return [...this.#plans.values()].sort((a, b) =>
      a.definition.name < b.definition.name ? -1 : 1,
    );
  }

  /** @throws BridgeError ERR_PLAN_UNKNOWN */
  get(name: string): CompiledPlan {
    const found = this.#plans.get(name);
    if (found !== undefined) return found;
    const text = 'no plan of this name is in the catalog; saltbridge bridge list shows them';
    throw new BridgeError('ERR_PLAN_UNKNOWN', text);
  }
}
