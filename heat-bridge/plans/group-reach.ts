/** The minions that a group of a plan may mean: by what the steps do there, and for which caller. */

import type { IntendedCall, Reach } from '#acl';
import type { ExtensionHost, TargetBounds } from '#master';
import { aclCallOf, type ResolvedCaller, reachOfCaller } from '../commands/callers.ts';
import type { Parameters } from '../commands/parameters.ts';
import type { CompiledPlan, MappedCommand } from './plan-catalog.ts';
import { stepParameters, stepReferences } from './step-parameters.ts';

/** A call of a plan. */
interface PlanCall {
  readonly plan: CompiledPlan;
  readonly parameters: Parameters;
  readonly caller: Pick<ResolvedCaller, 'subject' | 'policy'>;
}

/**
 * Of a group that the caller gives. Its minions are those that rules name for all commands on the
 * whole of it, and for all on at least one of its parts: first and rest may have other commands.
 * @throws BridgeError ERR_COMMAND_PARAMETERS
 */
export function targetBoundsOfGroup(
  host: Pick<ExtensionHost, 'policy'>,
  call: PlanCall,
  group: string,
): TargetBounds {
  const { groups } = call.plan.definition;
  const parts = Object.keys(groups).filter((name) => groups[name]?.from === group);
  const commands = [group, ...parts].map((name) => commandsOn(call.plan, name));
  const [whole = [], ...ofParts] = commands.map((list) =>
    list.map((mapped) => plannedCall(mapped, call.parameters)),
  );
  const used = ofParts.filter((calls) => calls.length > 0);
  const reaches = (used.length === 0 ? [whole] : used.map((calls) => [...whole, ...calls])).map(
    (calls) => reachOfCaller(host, call.caller, calls),
  );
  const hasSecrets = commands.flat().some((mapped) => mayGiveSecrets(mapped, call.parameters));
  return { reach: unionOfReaches(reaches), hasSecrets };
}

/** What is run on a group by itself, and what takes it back. */
function commandsOn({ steps }: CompiledPlan, group: string): readonly MappedCommand[] {
  return steps
    .filter(({ definition }) => definition.group === group)
    .flatMap(({ undo, ...step }) => (undo === undefined ? [step] : [step, undo]));
}

/** What depends on a result is not known yet. */
function plannedCall({ command, sources }: MappedCommand, parameters: Parameters): IntendedCall {
  if (stepReferences(sources).length > 0) return { fun: command.definition.name };
  return aclCallOf(command, command.check(stepParameters(sources, parameters, new Map())));
}

/** Or may give them, where that depends on a result. */
function mayGiveSecrets({ command, sources }: MappedCommand, parameters: Parameters): boolean {
  if (stepReferences(sources).length > 0) return (command.definition.secret ?? []).length > 0;
  return command.givesSecrets(command.check(stepParameters(sources, parameters, new Map())));
}

/** Whoever may do everything has no reach, whatever the commands. */
function unionOfReaches(reaches: readonly (Reach | undefined)[]): Reach | undefined {
  const limited = reaches.filter((reach) => reach !== undefined);
  if (limited.length < reaches.length) return undefined;
  const [only, ...more] = limited;
  if (only === undefined || more.length === 0) return only;
  return {
    isEmpty: limited.every(({ isEmpty }) => isEmpty),
    includes: (id) => limited.some(({ includes }) => includes(id)),
    denies: (id) => limited.every(({ denies }) => denies(id)),
    showsPillar: (id) => limited.some((reach) => reach.includes(id) && reach.showsPillar(id)),
    covers: (target) => limited.some(({ covers }) => covers(target)),
  };
}
