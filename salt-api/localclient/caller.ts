/**
 * Identifies callers and their rights: by a log-in if there is one, otherwise by the key of the
 * master's account.
 */

import { createHash, timingSafeEqual } from 'node:crypto';
import { AuthenticationError, AuthorizationError, type MasterApi, type UserApi } from '#master';
import type { WireMap } from '#minion-protocol';

/** Rights of a request, and the end of its use. */
export interface Caller {
  readonly api: Pick<UserApi, 'jobs' | 'runners' | 'wheel'>;
  /** Name of the caller. */
  readonly name: string;
  /**
   * User to record in jobs and events of a request that uses the key. With a log-in, it is absent.
   */
  readonly shown: { readonly user?: string };
  /** Releases the rights after their last use. */
  end(): Promise<void>;
}

/** The key with the account that owns it. */
export interface AccountKey {
  readonly account: string;
  readonly key: string;
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Source address of all clients of the host, for rate limits. They share one. */
const source = 'localclient';

/**
 * Returns the caller of a request. Salt's salt-api sends root's key along with each user's log-in,
 * so only the log-in must count.
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

/**
 * Checks the key. It compares digests, which have equal length and take constant time to compare.
 */
function checkKey({ key }: AccountKey, given: unknown): void {
  const [wanted, sent] = [key, textOf(given)].map(digest);
  if (wanted === undefined || sent === undefined || !timingSafeEqual(wanted, sent))
    throw wrongKey();
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function wrongKey(): AuthenticationError {
  return new AuthenticationError('ERR_EAUTH', 'Authentication error occurred.');
}

/**
 * Returns the user of a key. The key identifies the user, except that sudo users are named
 * separately, and root can read the key of any account.
 */
function userOfKey({ account }: AccountKey, given: unknown): string {
  if (given === undefined || given === account || given === 'root') return account;
  if (typeof given === 'string' && /^sudo_./.test(given)) return given;
  throw new AuthorizationError('Authorization error occurred.');
}
