/** Opens log-ins and the interface of users, from the parts of a master. */

import { once } from 'node:events';
import type { Logger } from 'pino';
import { rightsOfUser } from '../../acl/index.ts';
import { delay, linkSignals } from '../../runtime/index.ts';
import type { Store } from '../../store/index.ts';
import type { InProcessApi, InProcessJobsApi, TokenInfo, UserApi } from '../api/index.ts';
import { type Audit, LoginAudit } from '../audit/index.ts';
import { type LiveConfig, policySyntax } from '../config/index.ts';
import { Logins, toInfo } from './logins.ts';
import type { LivePolicy } from './policy.ts';
import { TokenTable } from './tokens.ts';
import { createUserApi, enforceSudoAcl, type UserApiDeps, type UserSession } from './user-api.ts';

export interface UsersDeps extends UserApiDeps {
  readonly config: LiveConfig;
  readonly foundations: { readonly store: Store; readonly audit: Audit };
  readonly policy: LivePolicy;
  readonly now: () => number;
}

/** Users, as the rest of a master sees them. */
export interface Users {
  readonly logins: Logins;
  readonly api: InProcessApi['logins'];
  readonly asUser: (token: string) => UserApi;
  /** Whom a token belongs to, for as long as it holds. */
  readonly holdToken: (token: string) => Promise<UserSession>;
  /** The local socket's jobs, some of which are users'. */
  readonly jobs: InProcessJobsApi;
}

/** Opens the tokens that were given, and tells what nobody can log in by on this machine. */
export async function openUsers(parts: UsersDeps): Promise<Users> {
  const logins = await openLogins(parts);
  const holdToken = tokenHolder({ ...parts, logins });
  return {
    logins,
    api: createLoginsApi(logins),
    asUser: (token) => createUserApi(parts, () => holdToken(token)),
    holdToken,
    jobs: enforceSudoAcl(parts),
  };
}

async function openLogins(parts: UsersDeps): Promise<Logins> {
  const { config, foundations, ruled, now, log } = parts;
  const { store, audit } = foundations;
  const monotonic = (): number => performance.now();
  const logins = new Logins({
    config,
    tokens: await TokenTable.open(store, { now, monotonic }),
    rightsOf: ({ user, groups, eauth }) =>
      rightsOfUser(config.current, { kind: 'user', name: user, groups, eauth }, policySyntax),
    now,
    monotonic,
    delay,
    audit: new LoginAudit(audit, ruled),
    log,
  });
  config.onChange(async () => {
    logins.configure();
    await warnAboutBackends(logins, log);
  });
  await warnAboutBackends(logins, log);
  return logins;
}

/** Names the back ends that are configured and cannot serve. */
async function warnAboutBackends(logins: Logins, log: Logger): Promise<void> {
  for (const [eauth, reason] of await logins.obstacles()) {
    log.warn({ eauth, reason }, 'eauth is not available, or not to all');
  }
}

/** See ../api.ts. */
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

/** Whoever has a token; the policy is the one in force, or the token's own. */
function tokenHolder({
  logins,
  policy,
}: Pick<UsersDeps, 'policy'> & { readonly logins: Logins }): Users['holdToken'] {
  // protection: token-unasked
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
