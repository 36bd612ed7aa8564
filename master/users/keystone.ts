/** Users of OpenStack's Keystone, version 3 [Identity API v3: auth/tokens]. */

import type { Static, TSchema } from 'typebox';
import Type from 'typebox';
import { Value } from 'typebox/value';
import type { KeystoneEntity } from '#acl';
import { compileSchema, createBoundedMap } from '#runtime';
import type { Authenticated, LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';

// Requests to Keystone, and its answers [Identity API v3: auth/tokens].

/** By Keystone's own id, or by a name within a domain. */
export type EntityReference =
  | { readonly id: string }
  | { readonly name: string; readonly domain: { readonly name: string } };

/** A token, as Keystone describes it. */
export interface IdentityToken {
  readonly user: KeystoneEntity;
  /** What the token is for; `undefined`: for no project. */
  readonly project: KeystoneEntity | undefined;
  /** Names of roles in the project. */
  readonly roles: readonly string[];
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

const Named = { id: Type.String(), name: Type.String() };
const Entity = Type.Object({ ...Named, domain: Type.Object(Named) });
const isTokenBody = compileSchema(
  Type.Object({
    token: Type.Object({
      user: Entity,
      project: Type.Optional(Entity),
      roles: Type.Optional(Type.Array(Type.Object({ name: Type.String() }))),
      expires_at: Type.String(),
    }),
  }),
);

/** Where tokens are made and looked at. @param authUrl ends with `/v3` */
export function tokensUrl(authUrl: string): string {
  return `${authUrl.replace(/\/+$/, '')}/auth/tokens`;
}

/**
 * The body by which somebody logs in, as JSON.
 * @param project what the token is to be for; default: nothing
 */
export function logInBody(
  { password, ...user }: EntityReference & { readonly password: string },
  project?: EntityReference,
): string {
  const identity = { methods: ['password'], password: { user: { ...user, password } } };
  const scope = project === undefined ? 'unscoped' : { project };
  return JSON.stringify({ auth: { identity, scope } });
}

/** The token that an answer describes, from its JSON; `undefined`: it describes none. */
export function readToken(body: unknown): IdentityToken | undefined {
  if (!isTokenBody.Check(body)) return undefined;
  const { user, project, roles = [], expires_at: expires } = body.token;
  const expiresAt = Date.parse(expires);
  if (Number.isNaN(expiresAt)) return undefined;
  return {
    user: entityOf(user),
    project: project && entityOf(project),
    roles: roles.map(({ name }) => name),
    expiresAt,
  };
}

/** Without what Keystone says beside it. */
function entityOf({ id, name, domain }: KeystoneEntity): KeystoneEntity {
  return { id, name, domain: { id: domain.id, name: domain.name } };
}

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

const maxBodyBytes = 1024 * 1024;

/** Users whose token is remembered; it is never stored, so log-ins end with the process. */
const maxTokens = 10_000;

export function createKeystoneBackend(settings: KeystoneSettings): LoginBackend {
  const held = createBoundedMap<string, KeystoneToken>(maxTokens);
  return {
    name: 'keystone',
    authenticate: async ({ username, password }, signal) => {
      const found = await logIn(settings, username, password, signal);
      if (found === undefined) return undefined;
      held.set(username, found.token);
      return found.identity;
    },
    standingOf: async ({ user }, signal) => {
      const token = held.get(user);
      if (token === undefined) return { state: 'gone' };
      const headers = { 'x-auth-token': token.secret, 'x-subject-token': token.secret };
      const { status } = await ask(tokensUrl(settings.authUrl), { headers, signal });
      if (status === 401 || status === 404) return { state: 'gone' };
      if (status !== 200) throw unavailable(`status ${status}`);
      return { state: 'valid', groups: await groupsOf(settings, token, signal) };
    },
    obstacle: async () =>
      /\/v2\.0\/?$/.test(settings.authUrl)
        ? 'keystone.auth_url names version 2.0, which no Keystone has any more; expected …/v3'
        : undefined,
  };
}

async function logIn(
  settings: KeystoneSettings,
  name: string,
  password: string,
  signal: AbortSignal,
): Promise<{ readonly token: KeystoneToken; readonly identity: Authenticated } | undefined> {
  const { status, headers, body } = await ask(tokensUrl(settings.authUrl), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: logInBody({ name, domain: { name: settings.domain }, password }),
    signal,
  });
  if (status === 401) return undefined;
  const secret = headers.get('x-subject-token');
  const token = readToken(body);
  if (status !== 201 || secret === null || token === undefined) {
    throw unavailable(`status ${status}`);
  }
  // Keystone compares names without regard to case; rights do not.
  if (token.user.name !== name) return undefined;
  const held = { secret, userId: token.user.id };
  const groups = await groupsOf(settings, held, signal);
  return {
    token: held,
    identity: { user: name, groups, until: token.expiresAt },
  };
}

async function groupsOf(
  settings: KeystoneSettings,
  { secret, userId }: KeystoneToken,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const url = `${baseOf(settings)}/users/${encodeURIComponent(userId)}/groups`;
  const { status, body } = await ask(url, { headers: { 'x-auth-token': secret }, signal });
  // A policy of the cloud's may keep people from seeing their own.
  if (status === 403) return [];
  const found = read(GroupsBody, body);
  if (status !== 200 || found === undefined) throw unavailable(`status ${status} for groups`);
  return found.groups.map((group) => group.name);
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** @throws AuthenticationError ERR_EAUTH_UNAVAILABLE */
async function ask(url: string, init: RequestInit): Promise<Answer> {
  try {
    const response = await fetch(url, { ...init, redirect: 'error' });
    const text = await readText(response);
    const isJson = response.headers.get('content-type')?.includes('json') === true;
    const body: unknown = isJson && text !== '' ? JSON.parse(text) : undefined;
    return { status: response.status, headers: response.headers, body };
  } catch (cause) {
    throw unavailable(cause instanceof Error ? cause.name : 'unknown', cause);
  }
}

async function readText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > maxBodyBytes) throw new RangeError('the answer is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function read<S extends TSchema>(schema: S, body: unknown): Static<S> | undefined {
  return Value.Check(schema, body) ? body : undefined;
}

function unavailable(reason: string, cause?: unknown): AuthenticationError {
  const text = `Keystone cannot be asked (${reason})`;
  return new AuthenticationError('ERR_EAUTH_UNAVAILABLE', text, { cause });
}

function baseOf({ authUrl }: KeystoneSettings): string {
  return authUrl.replace(/\/+$/, '');
}
