/** Who asks, and with whose rights: a log-in first, else the key of the master's account. */

import { createHash, timingSafeEqual } from 'node:crypto';
import { AuthenticationError, AuthorizationError, type MasterApi, type UserApi } from '#master';
import type { WireMap } from '#minion-protocol';

/** What a request may do, and how it ends. */
export interface Caller {
  readonly api: Pick<UserApi, 'jobs' | 'runners' | 'wheel'>;
  /** Who it is. */
  readonly name: string;
  /** For requests by the key: who is shown in what they start. With a log-in it is its user. */
  readonly shown: { readonly user?: string };
  /** Nothing more is asked with these rights. */
  end(): Promise<void>;
}

/** The key, and the account that it is the key of. */
export interface AccountKey {
  readonly account: string;
  readonly key: string;
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Of all clients of the host: they share an address. */
const source = 'localclient';

/**
 * Salt's salt-api sends root's key along with each user's log-in, which must count alone.
 * @param load - has the key
 * @param login - has the log-in, if there is one
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

/** @throws AuthenticationError */
export function logIn(master: MasterApi, login: WireMap): ReturnType<MasterApi['logins']['login']> {
  const { username, password, eauth } = login;
  const credentials = { username: textOf(username), password: textOf(password) };
  return master.logins.login({ ...credentials, eauth: textOf(eauth), source });
}

/** Digests have one length, and their comparison takes one time, whatever was sent. */
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

/** The key says who it is. Only who came by sudo is another; root reads the key of any account. */
function userOfKey({ account }: AccountKey, given: unknown): string {
  if (given === undefined || given === account || given === 'root') return account;
  if (typeof given === 'string' && /^sudo_./.test(given)) return given;
  throw new AuthorizationError('Authorization error occurred.');
}
