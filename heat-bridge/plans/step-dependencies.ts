/** Dependencies of the steps of a plan, and their order. */

/** A step, by what it needs. */
export type StepDependencies = ReadonlyMap<string, readonly string[]>;

/** The steps in an order in which each comes after what it needs; `undefined`: there is none. */
export function topologicalOrder(needs: StepDependencies): readonly string[] | undefined {
  const order = new Set<string>();
  for (;;) {
    const ready = [...needs.keys()].filter(
      (step) => !order.has(step) && (needs.get(step) ?? []).every((it) => order.has(it)),
    );
    if (ready.length === 0) break;
    for (const step of ready) order.add(step);
  }
  return order.size === needs.size ? [...order] : undefined;
}

/** All that a step needs, and what that needs. */
export function ancestorsOf(step: string, needs: StepDependencies): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [...(needs.get(step) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    open.push(...(needs.get(next) ?? []));
  }
  return found;
}
