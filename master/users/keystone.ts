/** Log-ins of users of OpenStack's Keystone. */

import Type from 'typebox';
import { Value } from 'typebox/value';
import {
  createBoundedMap,
  createDnsResolver,
  createHttpClient,
  type HttpResult,
  KeystoneClient,
  readToken,
  tryParseJson,
} from '#runtime';
import type { Authenticated, LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';

/** Where, and whose users. */
export interface KeystoneSettings {
  /** Ends with `/v3`. */
  readonly authUrl: string;
  /** Name of the users' domain. */
  readonly domain: string;
}

/** What Keystone gave for somebody who logged in: it says of itself whether it still holds. */
interface KeystoneToken {
  readonly secret: string;
  readonly userId: string;
}

const GroupsBody = Type.Object({ groups: Type.Array(Type.Object({ name: Type.String() })) });

/** Users whose token is remembered; it is never stored, so log-ins end with the process. */
const maxTokens = 10_000;

/** Milliseconds for one exchange; the log-in has a shorter limit of its own. */
const timeoutMs = 60_000;

export function createKeystoneBackend(settings: KeystoneSettings): LoginBackend {
  const held = createBoundedMap<string, KeystoneToken>(maxTokens);
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
        ? 'keystone.auth_url names version 2.0, which no Keystone has any more; expected …/v3'
        : undefined,
  };
}

/** The operator names the server, so that any address of its name is permitted. */
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
  const token = readToken(tryParseJson(login.body));
  if (token === undefined) throw unavailable('status 201');
  // Keystone compares names without regard to case; rights do not.
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
  // A policy of the cloud's may keep people from seeing their own.
  if (status === 403) return [];
  const found = tryParseJson(body);
  if (status !== 200 || !Value.Check(GroupsBody, found)) {
    throw unavailable(`status ${status} for groups`);
  }
  return found.groups.map((group) => group.name);
}

/** @throws AuthenticationError ERR_EAUTH_UNAVAILABLE */
function answerOf(result: HttpResult): Extract<HttpResult, { kind: 'answer' }> {
  if (result.kind === 'answer') return result;
  throw unavailable(result.reason);
}

function unavailable(reason: string): AuthenticationError {
  return new AuthenticationError('ERR_EAUTH_UNAVAILABLE', `Keystone cannot be asked (${reason})`);
}
