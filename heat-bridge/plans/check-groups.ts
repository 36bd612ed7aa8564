/** Whether the groups of a plan say what they must. */
import { refuse } from '../catalog/definition.ts';
import type { GroupDefinition } from './definition.ts';

/** @throws BridgeError ERR_CATALOG */
export function checkGroups(plan: string, groups: Readonly<Record<string, GroupDefinition>>): void {
  for (const [name, { from, select, min = 0, max = Infinity }] of Object.entries(groups)) {
    const field = `groups.${name}`;
    if (min > max) throw refuse(plan, `${field}.min`, 'it is larger than max');
    if ((from === undefined) !== (select === undefined)) {
      throw refuse(plan, field, 'expected both from and select, or neither');
    }
    if (from === undefined) continue;
    const whole = Object.hasOwn(groups, from) ? groups[from] : undefined;
    if (whole === undefined) throw refuse(plan, `${field}.from`, `there is no group ${from}`);
    if (whole.from !== undefined) {
      throw refuse(plan, `${field}.from`, `${from} is itself part of a group`);
    }
  }
}
