import { decide, isUnlimited, type Policy } from '#acl';
import type { MasterEvent } from '../api/index.ts';
import { MissedEvents } from '../events/index.ts';
import type { OwnJobs } from './own-jobs.ts';
import type { UserSession } from './user-session.ts';

const jidOfTag = /^(?:salt\/(?:job|run|wheel)\/)?(\d{20}(?:_[^/]+)?)(?:\/|$)/;

/**
 * Time for which the master remembers whether a user has full rights, in milliseconds. It is short,
 * because the rules that grant the rights may expire.
 */
const holdsMs = 1000;

/**
 * Returns a function that decides whether the user of a session may read an event [THREATS A-13].
 * Each call uses the current policy.
 */
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
    // The notice that events are missing may be read by everyone, because it does not reveal their
    // content.
    if (event instanceof MissedEvents) return true;
    const { tag } = event;
    const jid = jidOfTag.exec(tag)?.[1];
    if (jid !== undefined && ownJobs.isOf(jid, subject)) return true;
    return decide({ subject, action: 'subscribe', resource: { tag } }, policy).effect === 'allow';
  };
}
