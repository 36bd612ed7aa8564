import {
  decide,
  isUnlimited,
  type Policy,
  type Question,
  reachOf,
  rulesInForce,
  type UserSubject,
} from '#acl';
import { jidTime } from '#minion-protocol';
import { userWork, WorkBudget } from '#runtime';
import {
  type AuditRequester,
  type FunctionCall,
  type JobOrigin,
  MasterError,
  type PublishRequest,
  type Requested,
  requesterName,
} from '../api/index.ts';
import { requireInertArguments } from '../jobs/index.ts';
import { type AskedCalls, toBoundFunctions, toCalls } from './asked-calls.ts';
import { AuthenticationError, AuthorizationError } from './errors.ts';
import { permittedFields } from './limited-fields.ts';
import { isOwnJid, jidSkewMs } from './own-jobs.ts';
import { hasFullRights, type UserApiDeps, type UserSession } from './user-session.ts';

/** Name that audit records contain instead of a rule if the user has full rights. */
const unlimitedRule = 'unlimited';
/**
 * Name that audit records contain instead of a rule if a user follows a job of its own. This needs
 * no rule.
 */
const ownJobRule = 'own-job';
/** Name that audit records contain instead of a rule if no rule was evaluated. */
const defaultRule = 'default-deny';

const noMinions = { minions: [], missing: [], isNarrowed: false };

/** Action in the audit records of methods that require full rights. */
const interfaceAction = 'interface';

function requester({ name, eauth }: UserSubject, rule: string): AuditRequester {
  return { who: { kind: 'user', name, ...(eauth === undefined ? {} : { eauth }) }, rule };
}

/**
 * Rejects arguments that Salt would interpret, such as templates, and arguments of the form
 * `name=value`. The right to call a function does not include the effects of such arguments.
 * @throws MasterError ERR_ARGS
 */
export function requireInert(asked: AskedCalls): void {
  for (const call of toBoundFunctions(asked)) requireInertArguments(call);
}

/**
 * Checks that the token of a session is still valid.
 * @throws AuthenticationError ERR_EAUTH_TOKEN
 */
export function requireValid({ ended }: Pick<UserSession, 'ended'>): void {
  if (!ended.aborted) return;
  throw new AuthenticationError('ERR_EAUTH_TOKEN', 'the token has expired or was revoked');
}

/** Request of a user to follow a job. */
export interface FollowRequest extends Requested {
  readonly jid: string;
}

/**
 * Decides about all requests of users with the policy, and records the decisions in the audit log.
 */
export class UserGate {
  readonly #parts: UserApiDeps;

  constructor(parts: UserApiDeps) {
    this.#parts = parts;
  }

  /**
   * Returns the job with the changes that the user's rights require. Its target becomes the list of
   * those targeted minions that the rules permit. If there are none, the job is rejected in the
   * same way as for a user without rights. Fields that are reserved for operators are removed. A
   * user with full rights keeps the original target and these fields.
   * @throws AuthorizationError, MasterError ERR_ARGS, ERR_BAD_TGT; WorkLimitExceeded
   */
  async judgeJob<R extends PublishRequest & JobOrigin>(
    session: UserSession,
    request: R,
  ): Promise<R> {
    const { subject, policy } = session;
    const { targets } = this.#parts;
    const { requestedBy: _, ...asked } = request;
    if (isUnlimited(subject, policy)) {
      const by = requester(subject, unlimitedRule);
      return { ...asked, user: subject.name, by } as R; // only minions set the omitted field
    }
    const calls = toCalls(request);
    const reach = reachOf({ subject, action: 'publish', calls }, policy);
    const budget = new WorkBudget(userWork, requesterName(subject));
    const { minions, ...leftOut } = reach.isEmpty
      ? noMinions
      : await targets.resolveWithin(request, reach, budget);
    const question = { subject, action: 'publish', resource: { calls, minions } } as const;
    // The rights may have changed while the target was evaluated.
    requireValid(session);
    const rule = this.#judge({ ...question, subject: session.subject }, session.policy, request);
    requireInert(request);
    const rest = permittedFields(request);
    const { jid } = asked;
    const own = isOwnJid(jid, subject) ? { jid: this.#timelyJid(jid) } : {};
    const by = requester(subject, rule);
    const job = { tgt: minions, tgtType: 'list', user: subject.name, by, leftOut };
    return { ...rest, ...own, ...job } as R; // fewer fields
  }

  /**
   * Checks the time in a jid that a user chose. The time determines the position of the job among
   * other jobs.
   * @throws MasterError ERR_ARGS if it differs from the master's clock by more than an hour
   */
  #timelyJid(jid: string): string {
    const made = jidTime(jid)?.getTime() ?? Number.NaN;
    if (Math.abs(this.#parts.now() - made) <= jidSkewMs) return jid;
    const text =
      'its time differs from the clock of the master by more than an hour; check both clocks';
    throw new MasterError('ERR_ARGS', `jid ${jid}: ${text}`);
  }

  /**
   * Checks that the user may follow a job. Users without full rights may follow only jobs whose ids
   * end with the suffix of the user.
   * @returns the request with the user as its requester
   * @throws AuthorizationError
   */
  judgeFollowing(session: UserSession, { jid }: FollowRequest): FollowRequest {
    const { subject } = session;
    const isOwn = isOwnJid(jid, subject);
    const by = isOwn
      ? requester(subject, ownJobRule)
      : this.judgeEverything(session, 'jobs.follow');
    return { jid, by };
  }

  /**
   * Adapts a job to the user's rights as {@link judgeJob} does, and returns it. Also records its id
   * as one of the user's jobs.
   */
  async judgeOneJob<R extends PublishRequest & JobOrigin>(
    session: UserSession,
    request: R,
  ): Promise<R> {
    const permitted = await this.judgeJob(session, request);
    const jid = this.#parts.ownJobs.begin(session.subject, permitted.jid);
    return { ...permitted, jid };
  }

  /**
   * Adapts a job that is published after other jobs, such as a batch, as {@link judgeOneJob} does.
   * If the policy or the groups of the user have changed when a part of the job is published, or a
   * rule about the user has expired, this part is judged again. Otherwise it is not, because each
   * decision counts towards the rate limit of its rule.
   */
  async judgeBatch<R extends PublishRequest & JobOrigin>(
    session: UserSession,
    request: R,
  ): Promise<R> {
    const { subject, policy } = session;
    const countRules = (): number => rulesInForce(subject, policy, 'publish').length;
    const rules = countRules();
    const permitted = await this.judgeOneJob(session, request);
    const judgePart: JobOrigin['judgePart'] = async (part) => {
      requireValid(session);
      const isSame = session.policy === policy && session.subject === subject;
      if (isSame && countRules() === rules) return part;
      // The master has already accepted the jid, whose time may be long past.
      const { jid, ...rest } = part;
      const judged = await this.judgeJob(session, rest);
      return jid === undefined ? judged : { ...judged, jid };
    };
    return { ...permitted, judgePart };
  }

  /**
   * Checks a call of a runner or wheel function. Returns the call with a new jid and the user as
   * its requester.
   * @throws AuthorizationError, MasterError ERR_ARGS
   */
  judgeCall(
    session: UserSession,
    action: 'runner' | 'wheel',
    { jid: _, ...given }: FunctionCall,
  ): FunctionCall & Requested {
    const { subject } = session;
    // An argument that the function ignores must not meet the conditions of a rule.
    const asked = this.#parts.withoutUnknown(action, given);
    const rule = this.requireCall(session, action, asked);
    const jid = this.#parts.ownJobs.begin(subject);
    return { ...asked, user: subject.name, jid, by: requester(subject, rule) };
  }

  /**
   * Checks that the user may call a runner or wheel function.
   * @returns the name of the rule that permits the call
   * @throws AuthorizationError, MasterError ERR_ARGS
   */
  requireCall(
    { subject, policy }: UserSession,
    action: 'runner' | 'wheel',
    asked: AskedCalls,
  ): string {
    let rule = '';
    for (const call of toCalls(asked)) {
      rule = this.#judge({ subject, action, resource: { call } }, policy, asked);
    }
    if (!isUnlimited(subject, policy)) requireInert(asked);
    return rule;
  }

  /**
   * Whether the user may call a function or read events with a tag. See {@link UserApi.permits}.
   */
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

  /**
   * Checks that the user has full rights, and records the decision.
   * @param what - name of the method that requires full rights
   * @returns the user, for audit records
   * @throws AuthorizationError
   */
  judgeEverything(session: UserSession, what: string): AuditRequester {
    const { subject } = session;
    if (!hasFullRights(session)) {
      this.#refuse(subject, interfaceAction, { fun: what }, 'full rights are required');
    }
    const by = requester(subject, unlimitedRule);
    const decision = { effect: 'allow', rule: by.rule } as const;
    this.#parts.ruled.noteDecision({ who: by.who, action: interfaceAction, what }, decision);
    return by;
  }

  /**
   * Decides about a request of a user with the policy, and logs the decision.
   * @returns the name of the rule that permits the request
   * @throws AuthorizationError if the policy denies the request
   */
  #judge(question: Question, policy: Policy, { fun }: AskedCalls): string {
    const { effect, rule, reason } = decide(question, policy);
    if (effect === 'deny') this.#refuse(question.subject, question.action, { fun }, reason, rule);
    const { name: user } = question.subject as UserSubject; // only users are subjects here
    this.#parts.log.info({ user, fun, rule }, 'permitted a request of a user');
    return rule;
  }

  #refuse(
    subject: Question['subject'],
    action: Question['action'] | typeof interfaceAction,
    { fun }: Pick<AskedCalls, 'fun'>,
    reason: string,
    rule = defaultRule,
  ): never {
    const user = subject as UserSubject; // only users are subjects here
    const { name, eauth } = user;
    this.#parts.counters.count(`user-${action}-denied`);
    this.#parts.log.info({ user: name, eauth, fun, reason }, 'denied a request of a user');
    const { who } = requester(user, rule);
    const what = [fun].flat().join(', ');
    this.#parts.ruled.noteDecision({ who, action, what }, { effect: 'deny', rule });
    throw new AuthorizationError('Authorization error occurred.');
  }
}
