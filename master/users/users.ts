import { once } from 'node:events';
import type { Logger } from 'pino';
import { type Reach, rightsOfUser } from '#acl';
import { policySyntax } from '#config';
import { delay, linkSignals } from '#runtime';
import type {
  AddressedMinions,
  InProcessApi,
  InProcessJobsApi,
  TargetRequest,
  TokenInfo,
  UserApi,
} from '../api/index.ts';
import { LoginAudit } from '../audit/index.ts';
import { everyone } from '../jobs/index.ts';
import { createDecisionsApi } from './decisions-api.ts';
import { explainRequest } from './explain.ts';
import { Logins, toInfo } from './logins.ts';
import { type OpenPolicy, openPolicy, type PolicyDeps } from './open-policy.ts';
import { OwnJobs } from './own-jobs.ts';
import type { LivePolicy } from './policy.ts';
import { enforceSudoAcl } from './sudo-acl.ts';
import { TokenTable } from './tokens.ts';
import { createUserApi } from './user-api.ts';
import type { UserScope, UserSession } from './user-session.ts';

export type UsersDeps = PolicyDeps;

/** Users and their rights, for the other modules of a master. */
export interface Users extends OpenPolicy {
  readonly logins: InProcessApi['logins'];
  /** Explanations of the current policy, and the policy learned from its decisions. */
  readonly acl: Omit<InProcessApi['acl'], 'reload'>;
  /** Returns a session for a token, valid as long as the token. */
  readonly holdToken: (token: string) => Promise<UserSession>;
  /**
   * Resolves a target to the ids that it certainly matches.
   * @throws MasterError ERR_BAD_TGT
   */
  resolveTarget(target: TargetRequest, bounds?: TargetBounds): Promise<AddressedMinions>;
  /** Returns whether an operator's compound target certainly matches all of these minions. */
  isWithin(minions: readonly string[], target: string): boolean;
  /** Returns the interface for users, limited to their rights. */
  interfaceOf(api: UserScope): UserInterface;
}

/** Interface with the rights of users. */
interface UserInterface {
  readonly asUser: (token: string) => UserApi;
  /** Wraps the jobs of the local socket. Jobs of `sudo_<user>` have the rights of that user. */
  readonly sudoRights: (jobs: InProcessJobsApi) => InProcessJobsApi;
}

/** Limits for the minions that a target may match. */
export interface TargetBounds {
  /** Minions within reach. Default: all minions, with all known facts. */
  readonly reach?: Reach | undefined;
  /**
   * Whether the target receives secrets. It may then use only ids, and pillar values that do not
   * depend on grains. Default: false.
   */
  readonly hasSecrets?: boolean;
}

/**
 * Opens the policy and the stored tokens, and logs the backends that do not work on this machine.
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
    resolveTarget: async (target, { reach, hasSecrets = false } = {}) => {
      if (hasSecrets) return targets.resolveProven(target, reach ?? everyone);
      if (reach !== undefined) return targets.resolveWithin(target, reach);
      return targets.resolveCertain(target);
    },
    isWithin: (minions, tgt) => targets.entitlesAll({ tgt, tgtType: 'compound' }, minions),
    interfaceOf: (api) => {
      const { cluster, counters, nextJid, now } = context;
      const { ruled } = audit;
      const ownJobs = new OwnJobs(nextJid);
      const parts = { ...api, ownJobs, targets, counters, ruled, cluster, now, log };
      return {
        asUser: (token) => createUserApi(parts, () => holdToken(token)),
        sudoRights: (inner) => enforceSudoAcl({ ...parts, jobs: inner, config, policy }),
      };
    },
  };
}

async function openLogins({ config, context, audit }: UsersDeps, log: Logger): Promise<Logins> {
  const { store, cluster, now } = context;
  const monotonic = (): number => performance.now();
  const logins = new Logins({
    config,
    tokens: await TokenTable.open(store, { now, monotonic }, cluster),
    rightsOf: ({ user, groups, eauth }) =>
      rightsOfUser(config.current, { kind: 'user', name: user, groups, eauth }, policySyntax),
    now,
    monotonic,
    delay,
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

/** Starts the deletion of expired tokens, every `loop_interval`. */
function startSweep({ config, context }: UsersDeps, logins: Logins): { stop: () => void } {
  const timer = setInterval(() => {
    if (context.duties?.isHeld === false) return;
    logins.sweep().catch((error: unknown) => {
      context.log.error({ err: error }, 'expired tokens could not be deleted');
    });
  }, config.fixed.loopInterval * 1000);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}

/** Logs configured backends that do not fully work. */
async function warnAboutBackends(logins: Logins, log: Logger): Promise<void> {
  for (const [eauth, reason] of await logins.obstacles()) {
    log.warn({ eauth, reason }, 'eauth backend is unavailable, or not available to all users');
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
 * Returns a function that opens sessions for tokens. A session uses the current policy, or the
 * rights stored in the token.
 */
function tokenHolder(logins: Logins, policy: LivePolicy): Users['holdToken'] {
  return async (secret) => {
    const { token, ended, stop } = await logins.hold(secret);
    const { user: name, groups, eauth, rights } = token;
    return {
      subject: { kind: 'user', name, groups, eauth },
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
