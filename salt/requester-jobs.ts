/** Checks the rights of a minion or service for the jobs that it starts through runners. */

import type { Call, Decision, Reach } from '#acl';
import {
  AuthorizationError,
  type CallContext,
  callOf,
  type InProcessApi,
  type Jobs,
  MasterError,
  requesterName,
  requireInertArguments,
  separateKeywords,
} from '#master';
import { isKeywordText } from '#minion-protocol';
import { WorkBudget, type WorkLimits } from '#runtime';

export interface RequesterJobsOptions {
  readonly jobs: Pick<InProcessApi['jobs'], 'run'>;
  readonly targets: Pick<Jobs['targets'], 'resolveWithin'>;
  readonly work: WorkLimits;
  /** Returns the minions on which the requester may run the function. */
  readonly reach: (calls: readonly Call[]) => Reach;
  readonly decide: (calls: readonly Call[], minions: readonly string[]) => Decision;
}

/**
 * Returns the interface for jobs whose function the requester chooses. A job is sent only to those
 * targeted minions on which the requester may run the function.
 */
export function requesterJobs(
  who: NonNullable<CallContext['by']>['who'],
  { jobs, targets, work, reach, decide }: RequesterJobsOptions,
): NonNullable<CallContext['requesterJobs']> {
  return {
    run: async function* (request, signal) {
      const { tgt, tgtType, fun, timeoutSeconds } = request;
      // The last value may be a map of keyword arguments, to which the rules apply too.
      const { arg, kwarg } = separateKeywords(request.arg ?? [], request.kwarg);
      // Minions would interpret these texts as keyword arguments, which no rule has checked.
      const isHidden = arg.some((value) => typeof value === 'string' && isKeywordText(value));
      if (typeof fun !== 'string' || isHidden) {
        throw new MasterError(
          'ERR_ARGS',
          'pass exactly one function, and pass an argument of the form name=value as a keyword argument',
        );
      }
      const call = { fun, arg, kwarg };
      requireInertArguments(call);
      const calls = [callOf(call)];
      const target = { tgt, ...(tgtType === undefined ? {} : { tgtType }) };
      const budget = new WorkBudget(work, requesterName(who));
      const { minions, ...leftOut } = await targets.resolveWithin(target, reach(calls), budget);
      const { effect, rule } = decide(calls, minions);
      if (effect === 'deny') throw new AuthorizationError('Authorization error occurred.');
      const origin = { user: who.name, by: { who, rule }, leftOut };
      const wait = timeoutSeconds === undefined ? {} : { timeoutSeconds };
      yield* jobs.run({ ...call, tgt: minions, tgtType: 'list', ...wait, ...origin }, signal);
    },
  };
}
