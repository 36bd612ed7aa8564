import {
  type AddressedMinions,
  type CallContext,
  isOfOperator,
  type JobReturn,
  type Jobs,
  type MasterApi,
  MasterError,
  type RunRequest,
  type TargetRequest,
  workBudgetOf,
} from '#master';

/** Properties of a call that also apply to the jobs that the call runs. */
export type AskContext = Pick<CallContext, 'closing' | 'timeoutSeconds'>;

/** Interface of the master through which runners run jobs on minions. */
export interface MinionCalls {
  readonly jobs: Pick<MasterApi['jobs'], 'run'>;
}

/** Result of a job on minions. */
export interface MinionAnswers {
  readonly returns: readonly JobReturn[];
  /** Minions that returned, sorted. */
  readonly answered: readonly string[];
  /** Minions that did not return, sorted. */
  readonly silent: readonly string[];
}

/**
 * Returns the interface with which a runner starts jobs in the name of its requester. The requester
 * needs the same rights as for starting these jobs directly, because the requester chooses their
 * function.
 * @throws MasterError ERR_ARGS if the requester is not the operator, and `requesterJobs` is absent
 */
export function jobsOfRequester(
  { jobs }: MinionCalls,
  { by, requesterJobs }: Pick<CallContext, 'by' | 'requesterJobs'>,
): MinionCalls {
  if (requesterJobs !== undefined) return { jobs: requesterJobs };
  if (isOfOperator(by)) return { jobs };
  throw new MasterError('ERR_ARGS', 'only available on the local socket of the master');
}

/** Evaluator of the targets of requesters. */
export type RequesterTargets = Pick<Jobs['targets'], 'resolve' | 'resolveExact'>;

/**
 * Returns the minions with an accepted key that certainly match the target of a requester. If the
 * requester is not the operator, pillar values are compared only for equality, because patterns
 * could reveal them piece by piece.
 * @throws MasterError ERR_BAD_TGT; WorkLimitExceeded
 */
export function targetedMinions(
  request: TargetRequest,
  { by }: Pick<CallContext, 'by'>,
  targets: RequesterTargets,
): Promise<AddressedMinions> {
  if (isOfOperator(by)) return targets.resolve(request, { greedy: false, by });
  return targets.resolveExact(request, workBudgetOf(by));
}

/**
 * Returns the target of a job whose function the requester does not choose. For the operator, it is
 * the given target. For other requesters, it is the list of the minions that
 * {@link targetedMinions} returns.
 * @throws MasterError ERR_BAD_TGT; WorkLimitExceeded
 */
export async function targetOfRequester(
  request: TargetRequest,
  context: Pick<CallContext, 'by'>,
  targets: RequesterTargets,
): Promise<TargetRequest> {
  if (isOfOperator(context.by)) return request;
  const { minions } = await targetedMinions(request, context, targets);
  return { tgt: minions, tgtType: 'list' };
}

/** Runs a job on minions and waits until it has ended. */
export async function askMinions(
  { jobs }: MinionCalls,
  request: RunRequest,
  { closing, timeoutSeconds }: AskContext,
): Promise<MinionAnswers> {
  const timeout = timeoutSeconds === undefined ? {} : { timeoutSeconds };
  const returns: JobReturn[] = [];
  let [answered, silent]: [string[], string[]] = [[], []];
  for await (const update of jobs.run({ ...timeout, ...request }, closing)) {
    if (update.type === 'return') returns.push(update);
    if (update.type !== 'finished') continue;
    answered = [...update.answered].sort();
    silent = [...update.silent, ...update.reconnecting].sort();
  }
  return { returns, answered, silent };
}
