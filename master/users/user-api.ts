/** The interface with the rights of a user: the policy is asked before anything is done. */

import { hash } from 'node:crypto';
import type { Logger } from 'pino';
import {
  type Call,
  decide,
  isUnlimited,
  type Policy,
  type Question,
  reachOf,
  type UserSubject,
} from '#acl';
import type { LiveConfig } from '#config';
import { isKeywordText, jidTime, pythonStr, type WireValue } from '#minion-protocol';
import { createBoundedMap, linkSignals } from '#runtime';
import {
  type AuditRequester,
  type EventsApi,
  type FunctionCall,
  type InProcessApi,
  type InProcessFunctionsApi,
  type InProcessJobsApi,
  type JobOrigin,
  type MasterDescription,
  MasterError,
  type MasterEvent,
  type PublishRequest,
  type Requested,
  type UserApi,
} from '../api/index.ts';
import type { RuledDecisions } from '../audit/index.ts';
import type { Cluster } from '../context/index.ts';
import { type BusApi, flat, MissedEvents } from '../events/index.ts';
import { separateKeywords, type TargetResolver } from '../jobs/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import { AuthenticationError, AuthorizationError } from './errors.ts';
import { permittedFields } from './limited-fields.ts';
import type { LivePolicy } from './policy.ts';

// Requests of users as questions to the policy.

/** Functions with their arguments, as requests have them. */
interface AskedCalls {
  readonly fun: string | readonly string[];
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
}

/**
 * The functions of a request, each with its own arguments.
 * @throws MasterError ERR_ARGS for what a minion would take for something else than rules do
 */
function toCalls({ fun, arg = [], kwarg = {} }: AskedCalls): Call[] {
  if (typeof fun === 'string') return [toCall(fun, arg, kwarg)];
  const lists = arg.map((list) => (Array.isArray(list) ? list : [list]));
  if (lists.length !== fun.length) {
    throw new MasterError('ERR_ARGS', 'arg is not a list of arguments for each function');
  }
  // protection: first-of-a-users-functions
  return fun.map((name, index) => toCall(name, lists[index] ?? [], kwarg));
}

function toCall(
  fun: string,
  values: readonly WireValue[],
  kwarg: Readonly<Record<string, WireValue>>,
): Call {
  const { arg: positional, kwarg: keywords } = separateKeywords(values, kwarg);
  // A minion would make a keyword of it.
  // protection: hidden-keywords
  if (positional.some((value) => typeof value === 'string' && isKeywordText(value))) {
    throw new MasterError('ERR_ARGS', 'an argument looks like name=value; give it as a keyword');
  }
  let args: readonly string[] | undefined;
  let kwargs: ReadonlyMap<string, string> | undefined;
  // Few rules look at them, and they may be long.
  return {
    fun,
    get args() {
      args ??= positional.map(pythonStr);
      return args;
    },
    get kwargs() {
      kwargs ??= new Map(Object.entries(keywords).map(([name, it]) => [name, pythonStr(it)]));
      return kwargs;
    },
  };
}

// Events that a user may read [THREATS A-13].

const jidOfTag = /^(?:salt\/(?:job|run|wheel)\/)?(\d{20}(?:_[^/]+)?)(?:\/|$)/;

/** How long an answer about a whole policy holds: rules in it may expire. */
const holdsMs = 1000;

/** @returns whether the user may read an event now; reads the policy in force each time */
function readableBy(
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
    // protection: events-of-others
    if (isFull(policy)) return true;
    // It says that some are missing, and nothing of them.
    if (event instanceof MissedEvents) return true;
    const { tag } = event;
    const jid = jidOfTag.exec(tag)?.[1];
    if (jid !== undefined && ownJobs.isOf(jid, subject)) return true;
    return decide({ subject, action: 'subscribe', resource: { tag } }, policy).effect === 'allow';
  };
}

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
  readonly ruled: RuledDecisions;
  readonly now: () => number;
  /** Default: the master is by itself. */
  readonly cluster?: Pick<Cluster, 'status'> | undefined;
  readonly log: Logger;
}

/** @param open says who asks, anew for each call @throws AuthenticationError */
export function createUserApi(parts: UserApiDeps, open: () => Promise<UserSession>): UserApi {
  const gate = new UserGate(parts);
  /** Judged before the first thing is done; ends with the token. */
  async function* judged<R, T>(
    run: (request: R, signal?: AbortSignal) => AsyncIterable<T>,
    judge: (session: UserSession, request: R) => R,
    request: R,
    signal?: AbortSignal,
  ): AsyncGenerator<T, void, void> {
    const session = await open();
    const end = linkSignals(session.ended, signal);
    try {
      // protection: unjudged-streams
      const permitted = judge(session, request);
      yield* run(permitted, end.signal);
      if (session.ended.aborted)
        throw new AuthenticationError('ERR_EAUTH_TOKEN', 'the token has ended');
    } finally {
      end.unlink();
      session.stop();
    }
  }
  async function subscribed(
    request: Parameters<EventsApi['subscribe']>[0],
    signal?: AbortSignal,
  ): Promise<AsyncGenerator<readonly MasterEvent[], void, void>> {
    const session = await open();
    const { signal: end, unlink } = linkSignals(session.ended, signal);
    const stop = (): void => {
      unlink();
      session.stop();
    };
    const isReadable = readableBy(session, parts.ownJobs);
    // Before anybody reads: what happens from now on is in it.
    const events = parts.events.batches(request, end);
    return only(events, (event) => !end.aborted && isReadable(event), stop);
  }
  async function once<T>(work: (session: UserSession) => Promise<T>): Promise<T> {
    const session = await open();
    try {
      return await work(session);
    } finally {
      session.stop();
    }
  }
  const functions = (kind: 'runner' | 'wheel', api: InProcessFunctionsApi): UserApi['runners'] => ({
    run: (call) => once((session) => api.run(gate.judgeCall(session, kind, call))),
    start: (call) => once((session) => api.start(gate.judgeCall(session, kind, call))),
  });
  return {
    jobs: {
      publish: (request) =>
        once((session) => parts.jobs.publish(gate.judgeOneJob(session, request))),
      run: (request, signal) =>
        judged(parts.jobs.run, (session, it) => gate.judgeOneJob(session, it), request, signal),
      batch: (request, signal) =>
        judged(parts.jobs.batch, (session, it) => gate.judgeOneJob(session, it), request, signal),
      follow: (jid, signal) =>
        judged(parts.jobs.follow, (session, it) => gate.judgeFollowing(session, it), jid, signal),
    },
    runners: functions('runner', parts.runners),
    wheel: functions('wheel', parts.wheel),
    permits: (action, name) => once(async (session) => gate.permits(session, action, name)),
    events: {
      subscribe: async (request, signal) => flat(await subscribed(request, signal)),
      subscribeBatches: (request, signal) => subscribed(request, signal),
      fire: (tag, data) =>
        once((session) => {
          const call = { fun: 'event.send', arg: [tag] };
          const { by } = gate.judgeCall(session, 'runner', call);
          return parts.events.fire(tag, data, by);
        }),
    },
    keys: {
      create: ({ id, bits, force }) =>
        once((session) => {
          const given = { ...(bits === undefined ? {} : { bits }), ...(force ? { force } : {}) };
          const call = { fun: 'key.gen_accept', kwarg: { id_: id, ...given } };
          const { by } = gate.judgeCall(session, 'wheel', call);
          return parts.keys.create({ id, ...given }, by);
        }),
    },
    requireFullRights: (what) => once(async (session) => gate.judgeEverything(session, what)),
    describeMaster: () =>
      once(async (session) => {
        const isFull = hasFullRights(session);
        const own = isFull ? {} : { ownJobs: suffixOf(session.subject) };
        return { ...describeCluster(parts.cluster), hasFullRights: isFull, ...own };
      }),
  };
}

function describeCluster(
  cluster: UserApiDeps['cluster'],
): Pick<MasterDescription, 'jobs' | 'isReady'> {
  if (cluster === undefined) return { isReady: true };
  const { log, refusesWrites, isDraining } = cluster.status();
  return { jobs: log, isReady: !refusesWrites && !isDraining };
}

function hasFullRights({ subject, policy }: Pick<UserSession, 'subject' | 'policy'>): boolean {
  const actions = ['publish', 'runner', 'wheel'] as const;
  return actions.every((action) => isUnlimited(subject, policy, action));
}

async function* only<T>(
  batches: AsyncIterable<readonly T[]>,
  isMeant: (item: T) => boolean,
  stop: () => void,
): AsyncGenerator<readonly T[], void, void> {
  try {
    for await (const batch of batches) {
      // Mostly all of them are: then the list is the same for all who read it.
      const meant = batch.every(isMeant) ? batch : batch.filter(isMeant);
      if (meant.length > 0) yield meant;
    }
  } finally {
    stop();
  }
}

/** What is told as the rule where none was needed, and where none was asked. */
const unlimitedRule = 'unlimited';
const nobodysRule = 'default-deny';

/** What needs every right is audited as this. */
const interfaceAction = 'interface';

function requester({ name, eauth }: UserSubject, rule: string): AuditRequester {
  return { who: { kind: 'user', name, ...(eauth === undefined ? {} : { eauth }) }, rule };
}

/** The one gate in front of everything that users ask for. */
class UserGate {
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
    // protection: own-minions
    const minions = reach.isEmpty ? [] : targets.resolveWithin(request, reach);
    const question = { subject, action: 'publish', resource: { calls, minions } } as const;
    const rule = this.#judge(question, policy, request);
    // protection: own-fields
    const rest = permittedFields(request);
    const { jid } = asked;
    const own = isOwnJid(jid, subject) ? { jid: this.#timelyJid(jid) } : {};
    const by = requester(subject, rule);
    // protection: any-name-1
    return { ...rest, ...own, tgt: minions, tgtType: 'list', user: subject.name, by } as R; // fewer fields
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
    // protection: jobs-of-other-users
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
      // protection: unjudged-runners
      rule = this.#judge({ subject, action, resource: { call } }, policy, asked);
    }
    const jid = this.#parts.ownJobs.begin(subject);
    // protection: any-name-2
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
    this.#parts.ruled.note({ who: by.who, action: interfaceAction, what }, decision);
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
    this.#parts.ruled.note({ who, action, what }, { effect: 'deny', rule });
    throw new AuthorizationError('Authorization error occurred.');
  }
}

/** Jobs that are remembered, of all users together. */
const capacity = 10_000;

/** Which jobs and calls a user began, by jid; the oldest are forgotten. */
export class OwnJobs {
  readonly #nextJid: () => string;
  readonly #owners = createBoundedMap<string, string>(capacity);

  constructor(nextJid: () => string) {
    this.#nextJid = nextJid;
  }

  /** Notes a job before its first event. @param jid default: a new one @returns its jid */
  begin(subject: UserSubject, jid: string = this.#nextJid()): string {
    this.#owners.set(jid, nameOf(subject));
    return jid;
  }

  isOf(jid: string, subject: UserSubject): boolean {
    return isOwnJid(jid, subject) || this.#owners.get(jid) === nameOf(subject);
  }
}

/** How much the clocks of a client and of a master may differ. */
const jidSkewMs = 3_600_000;
/** By a client that knows several masters: its own random part, and whose it is. */
const ownJidForm = /^\d{20}_c[0-9a-f]{10}(u[0-9a-f]{16})$/;

/** What the job ids of a user end with, and of nobody else who may not do everything. */
function suffixOf(subject: UserSubject): string {
  return `u${hash('sha256', `job ids\0${nameOf(subject)}`).slice(0, 16)}`;
}

function isOwnJid(jid: string | undefined, subject: UserSubject): jid is string {
  // protection: job-ids-of-others
  return jid !== undefined && ownJidForm.exec(jid)?.[1] === suffixOf(subject);
}

/** The same name by another eauth is somebody else. */
function nameOf({ eauth = '', name }: UserSubject): string {
  return `${eauth}\0${name}`;
}

// `sudo_acl` [salt/auth/__init__.py].

const form = /^sudo_(.+)$/s;

/** Jobs of the local socket; those of `sudo_<user>` are held to that user's rights, if it is set. */
export function enforceSudoAcl(
  parts: UserApiDeps & { readonly config: LiveConfig; readonly policy: LivePolicy },
): InProcessJobsApi {
  const { jobs, config, policy } = parts;
  const jobsOf = ({ user }: { readonly user?: string }): InProcessJobsApi => {
    const [, name] = form.exec(user ?? '') ?? [];
    const { eauth, publisherAcl } = config.current;
    const isHeld = eauth.sudoAcl && Object.keys(publisherAcl).length > 0;
    if (!isHeld || name === undefined) return jobs;
    const open = async () => ({
      subject: { kind: 'user', name, groups: [] } as const,
      policy: policy.current,
      ended: new AbortController().signal,
      stop: () => {},
    });
    return { ...jobs, ...createUserApi(parts, open).jobs };
  };
  return {
    ...jobs,
    publish: (request) => jobsOf(request).publish(request),
    run: (request, signal) => jobsOf(request).run(request, signal),
    batch: (request, signal) => jobsOf(request).batch(request, signal),
  };
}
