import { decide, isUnlimited, type Policy, type UserSubject } from '#acl';
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

/** Whether a user with these groups has full rights by this policy, at this time. */
interface Known {
  readonly subject: UserSubject;
  readonly policy: Policy;
  readonly at: number;
  readonly isFull: boolean;
}

/**
 * Returns a function that decides whether the user of a session may read an event [THREATS A-13].
 * Each call uses the current policy, and the current groups of the user.
 */
export function readableBy(
  session: Pick<UserSession, 'subject' | 'policy'>,
  ownJobs: OwnJobs,
): (event: MasterEvent) => boolean {
  let known: Known | undefined;
  const isFull = ({ subject, policy }: Pick<UserSession, 'subject' | 'policy'>): boolean => {
    const at = policy.now();
    const isOld = known === undefined || Math.abs(at - known.at) >= holdsMs;
    if (isOld || known?.policy !== policy || known.subject !== subject) {
      known = { subject, policy, at, isFull: isUnlimited(subject, policy) };
    }
    return known.isFull;
  };
  return (event) => {
    const { subject, policy } = session;
    if (isFull({ subject, policy })) return true;
    // The notice that events are missing may be read by everyone, because it does not reveal their
    // content.
    if (event instanceof MissedEvents) return true;
    const { tag } = event;
    const jid = jidOfTag.exec(tag)?.[1];
    if (jid !== undefined && ownJobs.isOf(jid, subject)) return true;
    return decide({ subject, action: 'subscribe', resource: { tag } }, policy).effect === 'allow';
  };
}
