/** Performs one run of a reaction: checks the rights of the reaction and makes the call. */

import {
  type Call,
  type Decision,
  decide,
  isUnlimited,
  type Policy,
  type Reach,
  reachOf,
} from '#acl';
import { serviceOf } from '#config';
import {
  type AddressedMinions,
  AuthorizationError,
  type CallOrigin,
  callOf,
  type Functions,
  type InProcessApi,
  isFailureCode,
  type Jobs,
  MasterError,
  type OpenExtension,
  type ReactionResult,
} from '#master';
import { inTime, userWork, WorkLimitExceeded } from '#runtime';
import { requesterJobs } from '../requester-jobs.ts';
import type { MastersCall, PlannedCall, TargetedCall } from './reaction-planner.ts';
import type { OpenRun } from './reaction-queue.ts';

/** Interfaces of the master through which reactions make their calls. */
export interface ReactionCalls {
  /** Current access policy. */
  readonly policy: { readonly current: Policy };
  readonly targets: Pick<Jobs['targets'], 'resolveCertain' | 'resolveWithin'>;
  readonly jobs: Pick<InProcessApi['jobs'], 'run'>;
  readonly dispatcher: Pick<Jobs['dispatcher'], 'republish'>;
  readonly runners: Pick<Functions['runners'], 'run'>;
  readonly wheel: Pick<Functions['runners'], 'run'>;
  /** Returns the service of named commands, or `undefined` if no extension provides it. */
  readonly commands: () => NonNullable<OpenExtension['commands']> | undefined;
}

interface PerformDeps extends ReactionCalls {
  /** Marks the job as sent, so that it is never sent again. Durable when the promise resolves. */
  readonly markSent: (jid: string) => Promise<void>;
}

/**
 * Makes the call of a run and waits for its end.
 * @param deadline - when aborted, ends only the wait: a job that was published continues
 */
export async function performRun(
  parts: PerformDeps,
  run: OpenRun,
  deadline: AbortSignal,
): Promise<ReactionResult> {
  const { call } = run;
  try {
    switch (call.kind) {
      case 'run':
        return await performJob(parts, run, call, deadline);
      case 'command':
        return await performCommand(parts, run, call, deadline);
      default:
        return await performHere(parts, run, call, deadline);
    }
  } catch (error) {
    // The messages of these errors describe the call, so they become part of the result. Other
    // errors are only logged.
    if (error instanceof MasterError || error instanceof WorkLimitExceeded) {
      return { outcome: 'unusable', reason: error.message };
    }
    throw error;
  }
}

/**
 * Returns the minions to which a job of a reaction is sent: those that certainly match its target
 * and that the access rules permit. If the reaction has all rights, its target is used unchanged.
 * @throws MasterError ERR_BAD_TGT
 */
export async function addresseesOf(
  { policy, targets }: Pick<PerformDeps, 'policy' | 'targets'>,
  reaction: string,
  call: TargetedCall,
): Promise<AddressedMinions> {
  const { target } = call;
  const reach = reachOfReaction(policy.current, reaction, call);
  if (reach !== undefined) return targets.resolveWithin(target, reach);
  return targets.resolveCertain(target);
}

/** Returns the minions that the rules allow, or `undefined` if the reaction has all rights. */
function reachOfReaction(policy: Policy, reaction: string, call: TargetedCall): Reach | undefined {
  const subject = serviceOf(reaction);
  if (isUnlimited(subject, policy)) return undefined;
  return reachOf({ subject, action: 'publish', calls: [callOf(call)] }, policy);
}

/** Reason that is recorded for a job if the rights of the reaction have restricted its target. */
const narrowedByRights =
  'the job was sent only to the minions that the rules permit for this reaction';

function unaddressed({ missing }: Pick<AddressedMinions, 'missing'>): string[] {
  return missing.length === 0 ? [] : [`not addressed: ${missing.join(', ')}`];
}

function reasonOf(reasons: readonly string[]): Pick<ReactionResult, 'reason'> {
  return reasons.length === 0 ? {} : { reason: reasons.join('; ') };
}

async function performJob(
  parts: PerformDeps,
  { jid, reaction }: OpenRun,
  call: TargetedCall,
  deadline: AbortSignal,
): Promise<ReactionResult> {
  const { minions, ...leftOut } = await addresseesOf(parts, reaction, call);
  const isPermitted = reachOfReaction(parts.policy.current, reaction, call)?.isEmpty !== true;
  if (minions.length === 0 && isPermitted) {
    return { outcome: 'nobody', ...reasonOf(unaddressed(leftOut)) };
  }
  const decision = judge(parts, reaction, call, minions);
  if (decision.effect === 'deny') return denied(decision);
  if (await parts.dispatcher.republish(jid)) {
    // A process that has stopped stored the job, but did not record that it was sent.
    await parts.markSent(jid);
    return { outcome: 'interrupted' };
  }
  const { fun, arg, kwarg } = call;
  const who = serviceOf(reaction);
  const by = { who, rule: decision.rule };
  const job = { fun, arg, kwarg, user: who.name, jid, by, leftOut };
  const request = { tgt: minions, tgtType: 'list', ...job };
  let failed = 0;
  let silent = 0;
  for await (const update of parts.jobs.run(request, deadline)) {
    if (update.type === 'published') await parts.markSent(jid);
    if (update.type === 'return' && isFailureCode(update.retcode)) failed += 1;
    if (update.type === 'finished') silent = update.silent.length + update.reconnecting.length;
  }
  if (deadline.aborted) return { outcome: 'timeout' };
  const narrowed = leftOut.isNarrowed ? [narrowedByRights] : [];
  if (failed + silent === 0) return { outcome: 'succeeded', ...reasonOf(narrowed) };
  const count = minions.length + leftOut.missing.length;
  const reason = `${failed} of ${count} minions failed, ${silent} did not respond`;
  return { outcome: 'failed', ...reasonOf([reason, ...unaddressed(leftOut), ...narrowed]) };
}

/**
 * Runs a named command. The extension that provides the commands checks the rights of the reaction.
 * A repeated request with the same jid does not run the command again.
 */
async function performCommand(
  { commands: named }: PerformDeps,
  { jid, reaction }: OpenRun,
  { fun: command, target, kwarg: params }: TargetedCall,
  deadline: AbortSignal,
): Promise<ReactionResult> {
  const commands = named();
  if (commands === undefined) {
    return { outcome: 'unusable', reason: 'this master has no catalog of named commands' };
  }
  const caller = serviceOf(reaction);
  return commands.run({ jid, caller, command, target, params }, deadline);
}

async function performHere(
  parts: PerformDeps,
  { jid, reaction }: OpenRun,
  call: MastersCall,
  deadline: AbortSignal,
): Promise<ReactionResult> {
  const decision = judge(parts, reaction, call, []);
  if (decision.effect === 'deny') return denied(decision);
  // Mark the call as sent before it starts, because a runner cannot be looked up by its jid later.
  // Running it never is safer than running it twice.
  await parts.markSent(jid);
  const { kind, fun, arg, kwarg } = call;
  const who = serviceOf(reaction);
  const by = { who, rule: decision.rule };
  const caller = kind === 'runner' ? parts.runners : parts.wheel;
  const requireWheel = wheelRightOf(parts, reaction);
  const origin = { user: who.name, by, requireWheel, ...jobsOfReaction(parts, reaction) };
  const work = caller.run({ fun, arg, kwarg, jid, ...origin });
  const result = await inTime(work, deadline);
  if (result === undefined) return { outcome: 'timeout' };
  const isFailure = !result.success || isFailureCode(result.retcode ?? 0);
  return { outcome: isFailure ? 'failed' : 'succeeded' };
}

/**
 * Returns the interface through which a runner starts jobs for a reaction. It starts only jobs that
 * the access rules permit for the reaction. If the reaction has all rights, returns an empty
 * object, because its jobs need no check.
 */
function jobsOfReaction(
  { policy, jobs, targets }: PerformDeps,
  reaction: string,
): Partial<Pick<CallOrigin, 'requesterJobs'>> {
  const subject = serviceOf(reaction);
  if (isUnlimited(subject, policy.current)) return {};
  const action = 'publish';
  const rights = {
    ...{ jobs, targets, work: userWork },
    reach: (calls: readonly Call[]) => reachOf({ subject, action, calls }, policy.current),
    decide: (calls: readonly Call[], minions: readonly string[]) =>
      decide({ subject, action, resource: { calls, minions } }, policy.current),
  };
  return { requesterJobs: requesterJobs(subject, rights) };
}

/** Returns the check of a reaction's right to a wheel function that a runner asks for. */
function wheelRightOf(
  { policy }: PerformDeps,
  reaction: string,
): NonNullable<CallOrigin['requireWheel']> {
  const subject = serviceOf(reaction);
  return async (call) => {
    const resource = { call: callOf(call) };
    const { effect } = decide({ subject, action: 'wheel', resource }, policy.current);
    if (effect === 'deny') throw new AuthorizationError('Authorization error occurred.');
  };
}

function judge(
  { policy }: PerformDeps,
  reaction: string,
  call: PlannedCall,
  minions: readonly string[],
): Decision {
  const subject = serviceOf(reaction);
  if (!('target' in call)) {
    return decide({ subject, action: call.kind, resource: { call: callOf(call) } }, policy.current);
  }
  const resource = { calls: [callOf(call)], minions };
  return decide({ subject, action: 'publish', resource }, policy.current);
}

function denied({ rule, reason }: Decision): ReactionResult {
  return { outcome: 'denied', reason: `${rule}: ${reason}` };
}
