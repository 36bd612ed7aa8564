/** Determines on which minions a caller may run the commands for a group of a plan. */

import type { IntendedCall, Reach } from '#acl';
import type { ExtensionHost, TargetBounds } from '#master';
import {
  aclCallOf,
  actorOfCaller,
  type ResolvedCaller,
  reachOfCaller,
} from '../commands/callers.ts';
import type { Parameters } from '../commands/parameters.ts';
import type { CompiledPlan, MappedCommand } from './plan-catalog.ts';
import { stepParameters, stepReferences } from './step-parameters.ts';

/** Request for a run of a plan. */
interface PlanCall {
  readonly plan: CompiledPlan;
  readonly parameters: Parameters;
  readonly caller: Pick<ResolvedCaller, 'subject' | 'policy'>;
}

/**
 * Returns the minions that the target of a group may match, and whether commands send secrets to
 * them. The caller must have the right to run all commands for the whole group on each of these
 * minions. If steps run on a part of the group (`first` or `rest`), the caller also needs the right
 * to all commands of one such part.
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
  return { reach: unionOfReaches(reaches), hasSecrets, who: actorOfCaller(call.caller) };
}

/**
 * Returns the commands of all steps that name this group itself. Steps that name a part of the
 * group, such as its first minions, are not included. The commands that undo the steps are
 * included.
 */
function commandsOn({ steps }: CompiledPlan, group: string): readonly MappedCommand[] {
  return steps
    .filter(({ definition }) => definition.group === group)
    .flatMap(({ undo, ...step }) => (undo === undefined ? [step] : [step, undo]));
}

/**
 * Returns the function call to which the rules for a step are applied. If a parameter depends on
 * the result of another step, that result is not known yet, so the call has no arguments.
 */
function plannedCall({ command, sources }: MappedCommand, parameters: Parameters): IntendedCall {
  if (stepReferences(sources).length > 0) return { fun: command.definition.name };
  return aclCallOf(command, command.check(stepParameters(sources, parameters, new Map())));
}

/**
 * Whether a command receives secret parameters. If its parameters depend on results of other steps,
 * their values are not known yet. In this case, returns whether the command declares any secret
 * parameters.
 */
function mayGiveSecrets({ command, sources }: MappedCommand, parameters: Parameters): boolean {
  if (stepReferences(sources).length > 0) return (command.definition.secret ?? []).length > 0;
  return command.givesSecrets(command.check(stepParameters(sources, parameters, new Map())));
}

/** Returns the union of several sets of minions. It is unlimited if one of them is unlimited. */
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
