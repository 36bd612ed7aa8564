/** Log-in backend for users of OpenStack Keystone. */

import Type from 'typebox';
import { Check } from 'typebox/schema';
import {
  createBoundedMap,
  createDnsResolver,
  createHttpClient,
  type HttpResult,
  KeystoneClient,
  readJsonAnswer,
  readToken,
} from '#runtime';
import type { Authenticated, LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';
import { userLimits } from './limits.ts';

/** Keystone server and user domain. */
export interface KeystoneSettings {
  /** URL that ends with `/v3`. */
  readonly authUrl: string;
  /** Name of the users' domain. */
  readonly domain: string;
}

/**
 * Keystone token of a user who has logged in. With it, the backend asks Keystone whether the user
 * is still valid.
 */
interface KeystoneToken {
  readonly secret: string;
  readonly userId: string;
}

const GroupsBody = Type.Object({ groups: Type.Array(Type.Object({ name: Type.String() })) });

/** Timeout of one HTTP exchange, in milliseconds. A log-in has its own shorter timeout. */
const timeoutMs = 60_000;

export function createKeystoneBackend(settings: KeystoneSettings): LoginBackend {
  const held = createBoundedMap<string, KeystoneToken>(userLimits.keystoneTokens);
  const connect = createConnector(settings.authUrl);
  return {
    name: 'keystone',
    authenticate: async ({ username, password }, signal) => {
      const found = await logIn(connect(signal), settings.domain, username, password);
      if (found === undefined) return undefined;
      held.set(username, found.token);
      return found.identity;
    },
    standingOf: async ({ user }, signal) => {
      const token = held.get(user);
      if (token === undefined) return { state: 'gone' };
      const client = connect(signal);
      const { status } = answerOf(await client.describe(token.secret, token.secret));
      if (status === 401 || status === 404) return { state: 'gone' };
      if (status !== 200) throw unavailable(`status ${status}`);
      return { state: 'valid', groups: await groupsOf(client, token) };
    },
    obstacle: async () =>
      /\/v2\.0\/?$/.test(settings.authUrl)
        ? 'keystone.auth_url names API version 2.0, which Keystone no longer supports; use …/v3'
        : undefined,
  };
}

/**
 * Returns a function that creates clients of the Keystone server. The address of the server is not
 * restricted, because the operator configures the server.
 */
function createConnector(authUrl: string): (signal: AbortSignal) => KeystoneClient {
  const get = (origin: string) => ({ origin, ca: undefined, permits: () => true });
  const ask = createHttpClient({ endpoints: { get }, timeoutMs, resolve: createDnsResolver() });
  return (signal) => {
    if (!URL.canParse(authUrl)) throw unavailable('keystone.auth_url is not a URL');
    return new KeystoneClient(authUrl, (request) => ask(request, signal));
  };
}

async function logIn(
  client: KeystoneClient,
  domain: string,
  name: string,
  password: string,
): Promise<{ readonly token: KeystoneToken; readonly identity: Authenticated } | undefined> {
  const login = await client.logIn({ user: { name, domain: { name: domain }, password } });
  if (!login.isIn) {
    const { status } = answerOf(login.result);
    if (status === 401) return undefined;
    throw unavailable(`status ${status}`);
  }
  const token = readToken(await readJsonAnswer(login.body));
  if (token === undefined) throw unavailable('status 201');
  // Keystone ignores the case of names, but the rules of the policy do not. So a different spelling
  // is rejected.
  if (token.user.name !== name) return undefined;
  const held = { secret: login.token, userId: token.user.id };
  const groups = await groupsOf(client, held);
  return {
    token: held,
    identity: { user: name, groups, until: token.expiresAt },
  };
}

async function groupsOf(
  client: KeystoneClient,
  { secret, userId }: KeystoneToken,
): Promise<readonly string[]> {
  const { status, body } = answerOf(await client.groupsOf(secret, userId));
  // The policy of the cloud may forbid users to read their own groups.
  if (status === 403) return [];
  const found = await readJsonAnswer(body);
  if (status !== 200 || !Check(GroupsBody, found)) {
    throw unavailable(`it answered the request for the user's groups with status ${status}`);
  }
  return found.groups.map((group) => group.name);
}

/**
 * Returns the response to a request.
 * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE if there is none
 */
function answerOf(result: HttpResult): Extract<HttpResult, { kind: 'answer' }> {
  if (result.kind === 'answer') return result;
  throw unavailable(result.reason);
}

function unavailable(reason: string): AuthenticationError {
  return new AuthenticationError('ERR_EAUTH_UNAVAILABLE', `Keystone is unavailable (${reason})`);
}
