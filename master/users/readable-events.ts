/** Selects the events that a user may read [THREATS A-13]. */

import { decide, isUnlimited, type Policy } from '#acl';
import type { MasterEvent } from '../api/index.ts';
import { MissedEvents } from '../events/index.ts';
import type { OwnJobs } from './own-jobs.ts';
import type { UserSession } from './user-session.ts';

const jidOfTag = /^(?:salt\/(?:job|run|wheel)\/)?(\d{20}(?:_[^/]+)?)(?:\/|$)/;

/** How long an answer about a whole policy holds: rules in it may expire. */
const holdsMs = 1000;

/** @returns whether the user may read an event now; reads the policy in force each time */
export function readableBy(
  session: Pick<UserSession, 'subject' | 'policy'>,
  ownJobs: OwnJobs,
): (event: MasterEvent) => boolean {
  const { subject } = session;
  let known: { readonly policy: Policy; readonly at: number; readonly isFull: boolean } | undefined;
  const isFull = (policy: Policy): boolean => {
    const at = policy.now();
    if (known?.policy !== policy || Math.abs(at - known.at) >= holdsMs) {
      known = { policy, at, isFull: isUnlimited(subject, policy) };
    }
    return known.isFull;
  };
  return (event) => {
    const { policy } = session;
    if (isFull(policy)) return true;
    // It says that some are missing, and nothing of them.
    if (event instanceof MissedEvents) return true;
    const { tag } = event;
    const jid = jidOfTag.exec(tag)?.[1];
    if (jid !== undefined && ownJobs.isOf(jid, subject)) return true;
    return decide({ subject, action: 'subscribe', resource: { tag } }, policy).effect === 'allow';
  };
}
