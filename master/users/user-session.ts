/** Sessions of users, and the interfaces that they act on. */

import type { Logger } from 'pino';
import { isUnlimited, type Policy, type UserSubject } from '#acl';
import type { InProcessApi, InProcessFunctionsApi, InProcessJobsApi } from '../api/index.ts';
import type { AuditBursts } from '../audit/index.ts';
import type { Cluster } from '../context/index.ts';
import type { BusApi } from '../events/index.ts';
import type { TargetResolver } from '../jobs/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import type { OwnJobs } from './own-jobs.ts';

/** Whoever asks, as long as they may. */
export interface UserSession {
  readonly subject: UserSubject;
  /** The rules that hold for them, now. */
  readonly policy: Policy;
  /** Fires when what they began is to end. */
  readonly ended: AbortSignal;
  /** Nothing is under way any more. */
  stop(): void;
}

/** What users have the interface of. */
export interface UserScope {
  readonly jobs: InProcessJobsApi;
  readonly runners: InProcessFunctionsApi;
  readonly wheel: InProcessFunctionsApi;
  readonly keys: Pick<InProcessApi['keys'], 'create'>;
  readonly events: BusApi;
}

export interface UserApiDeps extends UserScope {
  /** Which jobs and calls users began. */
  readonly ownJobs: OwnJobs;
  readonly targets: Pick<TargetResolver, 'resolveWithin'>;
  readonly counters: RequestCounters;
  /** Keeps account of what was refused. */
  readonly ruled: AuditBursts;
  readonly now: () => number;
  /** Default: the master is by itself. */
  readonly cluster?: Pick<Cluster, 'status'> | undefined;
  readonly log: Logger;
}

export function hasFullRights({
  subject,
  policy,
}: Pick<UserSession, 'subject' | 'policy'>): boolean {
  const actions = ['publish', 'runner', 'wheel'] as const;
  return actions.every((action) => isUnlimited(subject, policy, action));
}
