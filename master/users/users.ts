import { once } from 'node:events';
import type { Logger } from 'pino';
import { type Reach, rightsOfUser, type UserSubject } from '#acl';
import { policySyntax } from '#config';
import { Budget, delay, linkSignals } from '#runtime';
import {
  type AddressedMinions,
  type AuditRequester,
  type InProcessApi,
  type InProcessJobsApi,
  type TargetRequest,
  type TokenInfo,
  type UserApi,
  workBudgetOf,
} from '../api/index.ts';
import { LoginAudit } from '../audit/index.ts';
import { everyone } from '../jobs/index.ts';
import { createDecisionsApi } from './decisions-api.ts';
import { explainRequest } from './explain.ts';
import { userLimits } from './limits.ts';
import { Logins, toInfo } from './logins.ts';
import { type OpenPolicy, openPolicy, type PolicyDeps } from './open-policy.ts';
import { OwnJobs } from './own-jobs.ts';
import type { LivePolicy } from './policy.ts';
import { StreamPatterns } from './stream-patterns.ts';
import { enforceSudoAcl } from './sudo-acl.ts';
import { TokenTable } from './tokens.ts';
import { createUserApi } from './user-api.ts';
import type { UserScope, UserSession } from './user-session.ts';

export type UsersDeps = PolicyDeps;

/** The users module of a master: users, their rights and their log-ins. */
export interface Users extends OpenPolicy {
  readonly logins: InProcessApi['logins'];
  /** Explains decisions of the current policy, and derives rules from recorded decisions. */
  readonly acl: Omit<InProcessApi['acl'], 'reload'>;
  /** Opens a session for the user of a token. The session is valid as long as the token. */
  readonly holdToken: (token: string) => Promise<UserSession>;
  /**
   * Resolves a target to the minions that certainly match it.
   * @param bounds - limits on these minions. Default: no limits
   * @throws MasterError ERR_BAD_TGT
   */
  resolveTarget(target: TargetRequest, bounds?: TargetBounds): Promise<AddressedMinions>;
  /**
   * Whether a compound target that an operator has configured certainly matches all of these
   * minions.
   */
  isWithin(minions: readonly string[], target: string): boolean;
  /** Creates the interface for users, which is limited to their rights. */
  interfaceOf(api: UserScope): UserInterface;
}

/** Interface of the master for users, limited to their rights. */
interface UserInterface {
  readonly asUser: (token: string) => UserApi;
  /**
   * Wraps the jobs interface for clients of the local socket. If the stated user is `sudo_<user>`,
   * a job is limited to the rights of `<user>` (`sudo_acl`).
   */
  readonly sudoRights: (jobs: InProcessJobsApi) => InProcessJobsApi;
}

/** Limits on the minions that a target may match. */
export interface TargetBounds {
  /**
   * Minions that the target may match. Default: all minions, with all of their known grains and
   * pillar.
   */
  readonly reach?: Reach | undefined;
  /**
   * Whether the matching minions receive secrets. If true, the target may use only ids, and pillar
   * values that do not depend on grains. Default: false.
   */
  readonly hasSecrets?: boolean;
  /**
   * Requester on whose behalf the target is evaluated. Requesters take turns. All targets of one
   * requester share the turn of this requester. Default: the operator.
   */
  readonly who?: AuditRequester['who'] | undefined;
}

/**
 * Creates the users module with its policy and the stored tokens. Logs a warning about backends
 * that do not work on this machine.
 */
export async function createUsers(deps: UsersDeps): Promise<Users> {
  const { config, context, audit, jobs } = deps;
  const { targets } = jobs;
  const log = context.log.child({ component: 'eauth' });
  const opened = await openPolicy(deps);
  const { policy, decisions } = opened;
  const logins = context.closers.add(await openLogins(deps, log), (it) => it.close());
  context.closers.add(startSweep(deps, logins), (it) => it.stop());
  const holdToken = tokenHolder(logins, policy);
  return {
    ...opened,
    logins: createLoginsApi(logins),
    acl: {
      explain: async (request) =>
        explainRequest({ policy: () => policy.current, targets }, request),
      ...createDecisionsApi({ decisions, policy }),
    },
    holdToken,
    resolveTarget: async (target, { reach, hasSecrets = false, who } = {}) => {
      const budget = workBudgetOf(who && { who });
      if (hasSecrets) return targets.resolveProven(target, reach ?? everyone, budget);
      if (reach !== undefined) return targets.resolveWithin(target, reach, budget);
      return targets.resolveCertain(target, budget);
    },
    isWithin: (minions, tgt) => targets.entitlesAll({ tgt, tgtType: 'compound' }, minions),
    interfaceOf: (api) => {
      const { cluster, counters, nextJid, now } = context;
      const { ruled } = audit;
      const ownJobs = new OwnJobs(nextJid);
      const streamPatterns = new StreamPatterns();
      const jobStreams = new Budget(userLimits.jobStreams);
      const parts = {
        ...api,
        ownJobs,
        streamPatterns,
        jobStreams,
        targets,
        counters,
        ruled,
        cluster,
        now,
        log,
      };
      return {
        asUser: (token) => createUserApi(parts, () => holdToken(token)),
        sudoRights: (inner) => enforceSudoAcl({ ...parts, jobs: inner, config, policy }),
      };
    },
  };
}

async function openLogins({ config, context, audit }: UsersDeps, log: Logger): Promise<Logins> {
  const { store, cluster, now } = context;
  const clocks = { now, monotonic: (): number => performance.now(), delay };
  const logins = new Logins({
    config,
    tokens: await TokenTable.open(store, clocks, cluster),
    rightsOf: ({ user, groups, eauth }) =>
      rightsOfUser(config.current, { kind: 'user', name: user, groups, eauth }, policySyntax),
    clocks,
    audit: new LoginAudit(audit, audit.ruled),
    log,
  });
  config.onChange(async () => {
    logins.configure();
    await warnAboutBackends(logins, log);
  });
  await warnAboutBackends(logins, log);
  return logins;
}

/** Starts a timer that deletes expired tokens every `loop_interval` seconds. */
function startSweep({ config, context }: UsersDeps, logins: Logins): { stop: () => void } {
  const timer = setInterval(() => {
    if (context.duties?.isHeld === false) return;
    logins.sweep().catch((error: unknown) => {
      context.log.error({ err: error }, 'cannot delete expired tokens; retrying later');
    });
  }, config.fixed.loopInterval * 1000);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}

/** Logs a warning about each configured backend that does not work for some or all users. */
async function warnAboutBackends(logins: Logins, log: Logger): Promise<void> {
  for (const [eauth, reason] of await logins.obstacles()) {
    log.warn(
      { eauth, reason },
      'some or all users cannot log in with an eauth back end; the field `reason` says why',
    );
  }
}

function createLoginsApi(logins: Logins): InProcessApi['logins'] {
  return {
    login: (request) => logins.login(request),
    identify: async (token) => toInfo(await logins.identify(token)),
    logout: (token) => logins.logout(token),
    list: async () => logins.list(),
    revoke: (selection, by) => logins.revoke(selection, by),
    follow: (token, signal) => follow(logins, token, signal),
  };
}

/**
 * Returns a function that opens sessions for tokens. A session always uses the current policy. If
 * the token stores rights, they replace the permissions of the user in `external_auth`.
 */
function tokenHolder(logins: Logins, policy: LivePolicy): Users['holdToken'] {
  return async (secret) => {
    const { token, groupsNow, ended, stop } = await logins.hold(secret);
    const { user: name, eauth, rights } = token;
    let subject: UserSubject = { kind: 'user', name, groups: groupsNow(), eauth };
    return {
      get subject() {
        const groups = groupsNow();
        if (groups !== subject.groups) subject = { ...subject, groups };
        return subject;
      },
      get policy() {
        return rights === undefined ? policy.current : policy.withRights(eauth, rights);
      },
      ended,
      stop,
    };
  };
}

async function* follow(
  logins: Logins,
  secret: string,
  signal?: AbortSignal,
): AsyncGenerator<TokenInfo, void, void> {
  const { token, ended, stop } = await logins.hold(secret);
  const end = linkSignals(ended, signal);
  try {
    yield toInfo(token);
    if (!end.signal.aborted) await once(end.signal, 'abort');
  } finally {
    end.unlink();
    stop();
  }
}
