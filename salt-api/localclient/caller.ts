/**
 * Identifies the caller of a request. If the request contains a log-in, the rights of its user
 * apply. Otherwise the request must contain the key of the master's account, which has all rights.
 */

import { AuthenticationError, AuthorizationError, type MasterApi, type UserApi } from '#master';
import type { WireMap } from '#minion-protocol';
import { isSameSecret } from '#runtime';

/**
 * Caller of a request, with the master's interface restricted to the caller's rights. Call `end`
 * after the last use.
 */
export interface Caller {
  readonly api: Pick<UserApi, 'jobs' | 'runners' | 'wheel'>;
  /** Name of the caller. */
  readonly name: string;
  /**
   * Field `user` for the jobs and events of this request. The object is empty if the request
   * contains a log-in, because the master then records the logged-in user.
   */
  readonly shown: { readonly user?: string };
  /** Ends the temporary log-in, if there is one. */
  end(): Promise<void>;
}

/** The key of the master's account, and the name of the account. */
export interface AccountKey {
  readonly account: string;
  readonly key: string;
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Source address in log-ins, for rate limits. All clients on the host share it. */
const source = 'localclient';

/**
 * Returns the caller of a request. If the request contains a log-in, the key is ignored, because
 * Salt's salt-api sends root's key with the log-in of each user.
 * @param load - contains the key
 * @param login - contains the log-in, if there is one
 * @throws AuthenticationError, AuthorizationError
 */
export async function callerOf(
  master: MasterApi,
  own: AccountKey,
  load: WireMap,
  login: WireMap,
): Promise<Caller> {
  if (login.token !== undefined || login.eauth !== undefined) return userOf(master, login);
  checkKey(own, load.key);
  const user = userOfKey(own, load.user);
  return { api: master, name: user, shown: { user }, end: async () => {} };
}

async function userOf(master: MasterApi, login: WireMap): Promise<Caller> {
  if (login.token !== undefined) {
    const token = textOf(login.token);
    const { user: name } = await master.logins.identify(token);
    return { api: master.asUser(token), name, shown: {}, end: async () => {} };
  }
  const { token, user: name } = await logIn(master, login);
  const end = async (): Promise<void> => void (await master.logins.logout(token));
  return { api: master.asUser(token), name, shown: {}, end };
}

/**
 * Logs a user in.
 * @throws AuthenticationError
 */
export function logIn(master: MasterApi, login: WireMap): ReturnType<MasterApi['logins']['login']> {
  const { username, password, eauth } = login;
  const credentials = { username: textOf(username), password: textOf(password) };
  return master.logins.login({ ...credentials, eauth: textOf(eauth), source });
}

function checkKey({ key }: AccountKey, given: unknown): void {
  if (!isSameSecret(key, textOf(given))) throw wrongKey();
}

function wrongKey(): AuthenticationError {
  return new AuthenticationError('ERR_EAUTH', 'Authentication error occurred.');
}

/**
 * Returns the name to record as the user of a request that contains the key of the master's
 * account. This is the account, or the name `sudo_NAME` that a client under sudo sends. Clients
 * that run as root may send `root`, which is recorded as the account.
 */
function userOfKey({ account }: AccountKey, given: unknown): string {
  if (given === undefined || given === account || given === 'root') return account;
  if (typeof given === 'string' && /^sudo_./.test(given)) return given;
  throw new AuthorizationError('Authorization error occurred.');
}
