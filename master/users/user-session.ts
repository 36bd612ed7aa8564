import type { Logger } from 'pino';
import { isUnlimited, type Policy, type Subject, type UserSubject } from '#acl';
import type { Budget } from '#runtime';
import type {
  FunctionCall,
  InProcessApi,
  InProcessFunctionsApi,
  InProcessJobsApi,
} from '../api/index.ts';
import type { AuditBursts } from '../audit/index.ts';
import type { Cluster } from '../context/index.ts';
import type { BusApi } from '../events/index.ts';
import type { TargetResolver } from '../jobs/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import type { OwnJobs } from './own-jobs.ts';
import type { StreamPatterns } from './stream-patterns.ts';

/** Session of a user who has logged in. It is valid as long as the user's token. */
export interface UserSession {
  /**
   * User with the current groups. The object stays the same until the groups of the user change.
   */
  readonly subject: UserSubject;
  /** Current policy, with the rights stored in the user's token if it has any. */
  readonly policy: Policy;
  /**
   * Signal that is aborted when the token becomes invalid. Operations of the session must then end.
   */
  readonly ended: AbortSignal;
  /** Ends the session. The token stays valid. */
  stop(): void;
}

/** Parts of the master's interface that users may call. */
export interface UserScope {
  readonly jobs: InProcessJobsApi;
  readonly runners: InProcessFunctionsApi;
  readonly wheel: InProcessFunctionsApi;
  /** Omits the keyword arguments that the function does not accept, if the call asks for this. */
  readonly withoutUnknown: (kind: 'runner' | 'wheel', call: FunctionCall) => FunctionCall;
  readonly keys: Pick<InProcessApi['keys'], 'create'>;
  readonly events: BusApi;
}

export interface UserApiDeps extends UserScope {
  /** Records which user started each job and call. */
  readonly ownJobs: OwnJobs;
  readonly streamPatterns: StreamPatterns;
  /** Number of open streams of jobs of each user. */
  readonly jobStreams: Pick<Budget, 'release' | 'tryTake'>;
  readonly targets: Pick<TargetResolver, 'resolveWithin'>;
  readonly counters: RequestCounters;
  /**
   * Recorder of decisions in the audit log. It counts repetitions within a minute in one record.
   */
  readonly ruled: AuditBursts;
  readonly now: () => number;
  /** Cluster of the master. Default: the master has no cluster. */
  readonly cluster?: Pick<Cluster, 'status'> | undefined;
  readonly log: Logger;
}

/** Whether the policy permits all jobs, runners and wheel functions to the subject. */
export function hasFullRights({
  subject,
  policy,
}: {
  readonly subject: Subject;
  readonly policy: Policy;
}): boolean {
  const actions = ['publish', 'runner', 'wheel'] as const;
  return actions.every((action) => isUnlimited(subject, policy, action));
}
