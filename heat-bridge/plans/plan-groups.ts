/**
 * Groups of a plan. The caller gives targets for some groups. Each other group is a part of a group
 * with a target.
 */

import type { AddressedMinions, ExtensionHost, TargetBounds } from '#master';
import { deniedForTarget } from '../commands/callers.ts';
import { catalogError } from '../commands/command-definition.ts';
import { type CommandTarget, targetOf } from '../commands/command-request.ts';
import { BridgeError } from '../errors.ts';
import type { GroupDefinition, PlanDefinition } from './plan-definition.ts';

/** Minions of each group. The order of the minions determines the batches. */
export type Groups = Readonly<Record<string, readonly string[]>>;

/**
 * Groups of a run. `narrowed` names the groups that exclude some minions, because the caller has no
 * rights on these minions.
 */
interface ResolvedGroups {
  readonly groups: Groups;
  readonly narrowed: readonly string[];
}

/** Whether a group always has exactly one minion. */
export function isSingleMinionGroup({ select, max, min = 1 }: GroupDefinition): boolean {
  return select === 'first' || (max === 1 && min === 1 && select === undefined);
}

/**
 * Determines the minions of each group. A target that is a list keeps its order. The minions of any
 * other target are sorted by id.
 * @param boundsOf - returns the minions that the target of a group may match; errors do not mention
 * other minions
 * @throws BridgeError ERR_PLAN_GROUPS, ERR_COMMAND_DENIED; MasterError ERR_BAD_TGT
 */
export async function resolveGroups(
  host: Pick<ExtensionHost, 'resolveTarget'>,
  { name: plan, groups }: PlanDefinition,
  given: Readonly<Record<string, CommandTarget>>,
  boundsOf: (group: string) => TargetBounds,
): Promise<ResolvedGroups> {
  const problem = (text: string): BridgeError =>
    new BridgeError('ERR_PLAN_GROUPS', `${plan}: ${text}`);
  const names = Object.keys(groups).filter((name) => groups[name]?.from === undefined);
  if (Object.keys(given).some((name) => !names.includes(name))) {
    throw problem(
      `the call names an unknown group; the groups of this plan are ${names.join(', ')}`,
    );
  }
  const settled: Record<string, readonly string[]> = {};
  const narrowed: string[] = [];
  for (const name of names) {
    const target = Object.hasOwn(given, name) ? given[name] : undefined;
    if (target === undefined) throw problem(`the call gives no target for the group ${name}`);
    const bounds = boundsOf(name);
    const { minions, isNarrowed } = await resolveGroupTarget(host, target, bounds);
    if (isNarrowed) narrowed.push(name);
    if (isOutOfReach(minions, bounds, groups[name])) throw deniedForTarget(plan);
    if (minions === undefined) {
      throw problem(
        `the target of the group ${name} includes minions without an accepted key, or minions that no rule permits the caller to address`,
      );
    }
    settled[name] = minions;
  }
  const all = Object.values(settled).flat();
  if (new Set(all).size < all.length)
    throw problem('a minion belongs to two groups, or is listed twice in one group');
  for (const [name, group] of Object.entries(groups)) {
    const minions = settled[name] ?? selectPart(group, settled[group.from ?? ''] ?? []);
    settled[name] = minions;
    const { min = group.select === 'rest' ? 0 : 1, max = Infinity } = group;
    if (minions.length < min || minions.length > max) {
      const bounds = max === Infinity ? `${min} or more` : `${min} to ${max}`;
      throw problem(
        `the target of the group ${name} matches ${minions.length} minions, but the plan requires ${bounds}`,
      );
    }
  }
  return { groups: settled, narrowed };
}

function selectPart({ select }: GroupDefinition, minions: readonly string[]): readonly string[] {
  return select === 'first' ? minions.slice(0, 1) : minions.slice(1);
}

/**
 * Whether the caller has rights on none of the minions that the target of a group selects. The
 * caller then gets the same error as for a command that no rule permits.
 */
function isOutOfReach(
  minions: readonly string[] | undefined,
  { reach }: TargetBounds,
  group: GroupDefinition | undefined,
): boolean {
  if (reach === undefined) return false;
  return reach.isEmpty || (minions?.length === 0 && group?.min !== 0);
}

/**
 * Determines the minions of one group. `minions` is absent if some of the listed minions cannot be
 * addressed.
 */
async function resolveGroupTarget(
  host: Pick<ExtensionHost, 'resolveTarget'>,
  target: CommandTarget,
  bounds: TargetBounds,
): Promise<Pick<AddressedMinions, 'isNarrowed'> & { readonly minions?: readonly string[] }> {
  if (bounds.reach?.isEmpty === true) return { minions: [], isNarrowed: true };
  const request = targetOf(target);
  const { minions, missing, isNarrowed } = await host.resolveTarget(request, bounds);
  if (bounds.reach !== undefined && minions.length === 0) return { minions, isNarrowed };
  if (missing.length > 0) return { isNarrowed };
  const isOrdered = request.tgtType === 'list' && typeof request.tgt !== 'string';
  return { minions: isOrdered ? request.tgt : minions, isNarrowed };
}

/**
 * Validates the definitions of groups.
 * @throws BridgeError ERR_CATALOG
 */
export function checkGroups(plan: string, groups: Readonly<Record<string, GroupDefinition>>): void {
  for (const [name, { from, select, min = 0, max = Infinity }] of Object.entries(groups)) {
    const field = `groups.${name}`;
    if (min > max) throw catalogError(plan, `${field}.min`, 'must not be larger than `max`');
    if ((from === undefined) !== (select === undefined)) {
      throw catalogError(plan, field, 'set both of the fields `from` and `select`, or neither');
    }
    if (from === undefined) continue;
    const whole = Object.hasOwn(groups, from) ? groups[from] : undefined;
    if (whole === undefined) throw catalogError(plan, `${field}.from`, `unknown group ${from}`);
    if (whole.from !== undefined) {
      throw catalogError(
        plan,
        `${field}.from`,
        `the group ${from} itself has the field \`from\`; use a group without this field`,
      );
    }
  }
}
