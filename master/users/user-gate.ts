/** Asks the policy whether a user may do something, and records refusals. */

import { decide, isUnlimited, type Policy, type Question, reachOf, type UserSubject } from '#acl';
import { jidTime } from '#minion-protocol';
import {
  type AuditRequester,
  type FunctionCall,
  type JobOrigin,
  MasterError,
  type PublishRequest,
  type Requested,
} from '../api/index.ts';
import { requireInertArguments } from '../jobs/index.ts';
import { type AskedCalls, toBoundFunctions, toCalls } from './asked-calls.ts';
import { AuthorizationError } from './errors.ts';
import { permittedFields } from './limited-fields.ts';
import { isOwnJid, jidSkewMs } from './own-jobs.ts';
import { hasFullRights, type UserApiDeps, type UserSession } from './user-session.ts';

/** What is told as the rule where none was needed, and where none was asked. */
const unlimitedRule = 'unlimited';
const nobodysRule = 'default-deny';

const noMinions = { minions: [], missing: [], isNarrowed: false };

/** What needs every right is audited as this. */
const interfaceAction = 'interface';

function requester({ name, eauth }: UserSubject, rule: string): AuditRequester {
  return { who: { kind: 'user', name, ...(eauth === undefined ? {} : { eauth }) }, rule };
}

/** A right to a function is no right to what Salt would make of its arguments. @throws MasterError ERR_ARGS */
function requireInert(asked: AskedCalls): void {
  for (const call of toBoundFunctions(asked)) requireInertArguments(call);
}

/** The one gate in front of everything that users ask for. */
export class UserGate {
  readonly #parts: UserApiDeps;

  constructor(parts: UserApiDeps) {
    this.#parts = parts;
  }

  /**
   * The job as it may be published: to those that the target means of the minions that the rules
   * name for it, by name. A target that means none of them is refused as one who may do nothing is.
   * Only who may do everything keeps the target as it was written, and fields beyond the job's own.
   * @throws AuthorizationError, MasterError ERR_ARGS, ERR_BAD_TGT
   */
  judgeJob<R extends PublishRequest & JobOrigin>({ subject, policy }: UserSession, request: R): R {
    const { targets } = this.#parts;
    const { requestedBy: _, ...asked } = request;
    if (isUnlimited(subject, policy)) {
      const by = requester(subject, unlimitedRule);
      return { ...asked, user: subject.name, by } as R; // without what only minions have
    }
    const calls = toCalls(request);
    const reach = reachOf({ subject, action: 'publish', calls }, policy);
    const { minions, ...leftOut } = reach.isEmpty
      ? noMinions
      : targets.resolveWithin(request, reach);
    const question = { subject, action: 'publish', resource: { calls, minions } } as const;
    const rule = this.#judge(question, policy, request);
    requireInert(request);
    const rest = permittedFields(request);
    const { jid } = asked;
    const own = isOwnJid(jid, subject) ? { jid: this.#timelyJid(jid) } : {};
    const by = requester(subject, rule);
    const job = { tgt: minions, tgtType: 'list', user: subject.name, by, leftOut };
    return { ...rest, ...own, ...job } as R; // fewer fields
  }

  /** @throws MasterError ERR_ARGS for one that would stand in a wrong place among the others */
  #timelyJid(jid: string): string {
    const made = jidTime(jid)?.getTime() ?? Number.NaN;
    if (Math.abs(this.#parts.now() - made) <= jidSkewMs) return jid;
    const text = 'its time is more than an hour from that of the master: check both clocks';
    throw new MasterError('ERR_ARGS', `jid ${jid}: ${text}`);
  }

  /** Whoever may not do everything follows what has a job id of their own. @throws AuthorizationError */
  judgeFollowing(session: UserSession, jid: string): string {
    if (!isOwnJid(jid, session.subject)) this.judgeEverything(session, 'jobs.follow');
    return jid;
  }

  /** The same, of a job that has one jid, which is noted as this user's. */
  judgeOneJob<R extends PublishRequest & JobOrigin>(session: UserSession, request: R): R {
    const permitted = this.judgeJob(session, request);
    const jid = this.#parts.ownJobs.begin(session.subject, permitted.jid);
    return { ...permitted, jid };
  }

  /** The call as it may be made. @throws AuthorizationError, MasterError ERR_ARGS */
  judgeCall(
    { subject, policy }: UserSession,
    action: 'runner' | 'wheel',
    { jid: _, ...asked }: FunctionCall,
  ): FunctionCall & Requested {
    let rule = '';
    for (const call of toCalls(asked)) {
      rule = this.#judge({ subject, action, resource: { call } }, policy, asked);
    }
    if (!isUnlimited(subject, policy)) requireInert(asked);
    const jid = this.#parts.ownJobs.begin(subject);
    return { ...asked, user: subject.name, jid, by: requester(subject, rule) };
  }

  /** See {@link UserApi.permits}. */
  permits(
    { subject, policy }: UserSession,
    action: 'runner' | 'wheel' | 'subscribe',
    name: string,
  ): boolean {
    if (isUnlimited(subject, policy)) return true;
    if (action === 'subscribe') {
      return decide({ subject, action, resource: { tag: name } }, policy).effect === 'allow';
    }
    return toCalls({ fun: name }).every((call) => {
      return decide({ subject, action, resource: { call } }, policy).effect === 'allow';
    });
  }

  /** @returns who that is @throws AuthorizationError */
  judgeEverything(session: UserSession, what: string): AuditRequester {
    const { subject } = session;
    if (!hasFullRights(session)) {
      this.#refuse(subject, interfaceAction, { fun: what }, 'not everything is permitted');
    }
    const by = requester(subject, unlimitedRule);
    const decision = { effect: 'allow', rule: by.rule } as const;
    this.#parts.ruled.noteDecision({ who: by.who, action: interfaceAction, what }, decision);
    return by;
  }

  /** @returns the rule that permits it */
  #judge(question: Question, policy: Policy, { fun }: AskedCalls): string {
    const { effect, rule, reason } = decide(question, policy);
    if (effect === 'deny') this.#refuse(question.subject, question.action, { fun }, reason, rule);
    const { name: user } = question.subject as UserSubject; // nobody else is asked about here
    this.#parts.log.info({ user, fun, rule }, 'permitted to a user');
    return rule;
  }

  #refuse(
    subject: Question['subject'],
    action: Question['action'] | typeof interfaceAction,
    { fun }: Pick<AskedCalls, 'fun'>,
    reason: string,
    rule = nobodysRule,
  ): never {
    const user = subject as UserSubject; // as above
    const { name, eauth } = user;
    this.#parts.counters.count(`user-${action}-denied`);
    this.#parts.log.info({ user: name, eauth, fun, reason }, 'refused to a user');
    const { who } = requester(user, rule);
    const what = [fun].flat().join(', ');
    this.#parts.ruled.noteDecision({ who, action, what }, { effect: 'deny', rule });
    throw new AuthorizationError('Authorization error occurred.');
  }
}
