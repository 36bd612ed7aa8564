/**
 * Client of Keystone's Identity API v3 [Identity API v3: auth/tokens], used to log in users,
 * services and stacks.
 */

import { Type } from 'typebox';
import { compileSchema } from './compile-schema.ts';
import type { HttpResult, OutgoingRequest } from './http-client.ts';
import { trimEnd } from './trim-end.ts';

const Named = { id: Type.String(), name: Type.String() };
const Entity = Type.Object({ ...Named, domain: Type.Object(Named) });
const tokenSchema = compileSchema(
  Type.Object({
    token: Type.Object({
      user: Entity,
      project: Type.Optional(Entity),
      roles: Type.Optional(Type.Array(Type.Object({ name: Type.String() }))),
      expires_at: Type.String(),
    }),
  }),
);

/** A user or a project in Keystone. */
type IdentityEntity = Type.Static<typeof Entity>;

/** A reference by Keystone id, or by a name within a domain. */
export type EntityReference =
  | { readonly id: string }
  | { readonly name: string; readonly domain: { readonly name: string } };

/** Credentials and scope of a log-in. */
export type KeystoneCredentials =
  | {
      readonly user: EntityReference & { readonly password: string };
      /** Scope of the token. Default: unscoped. */
      readonly scope?: { readonly project: EntityReference } | { readonly trust: string };
    }
  /** Application credential, which has a scope of its own. */
  | { readonly application: { readonly id: string; readonly secret: string } };

/** Content of a token, as described by Keystone. */
export interface IdentityToken {
  readonly user: IdentityEntity;
  /** Project to which the token is scoped, or `undefined` if the token is unscoped. */
  readonly project: IdentityEntity | undefined;
  /** Names of the roles in the project. */
  readonly roles: readonly string[];
  /** Expiry in milliseconds since 1970. */
  readonly expiresAt: number;
}

/** Result of a log-in. */
export type KeystoneLogin =
  | {
      readonly isIn: true;
      readonly token: string;
      /** Description of the token and the catalog of services, as JSON. */
      readonly body: string;
    }
  /** The log-in failed, or a response with status 201 does not contain a token. */
  | { readonly isIn: false; readonly result: HttpResult };

/**
 * Maximum size of a response, in bytes. Service catalogs of large clouds have tens of kilobytes.
 */
const maxAnswerBytes = 1_048_576;

/** Sends requests to one Keystone service. It stores neither credentials nor tokens. */
export class KeystoneClient {
  readonly #url: string;
  readonly #ask: (request: OutgoingRequest) => Promise<HttpResult>;

  /** @param url - URL that ends with `/v3` */
  constructor(url: string, ask: (request: OutgoingRequest) => Promise<HttpResult>) {
    this.#url = trimEnd(url, '/');
    this.#ask = ask;
  }

  async logIn(credentials: KeystoneCredentials): Promise<KeystoneLogin> {
    const body = logInBody(credentials);
    const url = `${this.#url}/auth/tokens`;
    const result = await this.#ask({ method: 'POST', url, body, maxAnswerBytes });
    if (result.kind !== 'answer' || result.status !== 201) return { isIn: false, result };
    const token = result.headers['x-subject-token'];
    return typeof token === 'string'
      ? { isIn: true, token, body: result.body }
      : { isIn: false, result };
  }

  /**
   * Requests the description of a token. Parse the body with {@link readToken}. The status is 404
   * if `token` is invalid, and 401 if `own` is invalid.
   * @param own - token that authenticates this request to Keystone
   */
  describe(own: string, token: string): Promise<HttpResult> {
    const headers = { 'x-auth-token': own, 'x-subject-token': token };
    const url = `${this.#url}/auth/tokens?nocatalog`;
    return this.#ask({ method: 'GET', url, headers, maxAnswerBytes });
  }

  /**
   * Requests the groups of a user.
   * @param own - token that authenticates this request to Keystone
   */
  groupsOf(own: string, userId: string): Promise<HttpResult> {
    const url = `${this.#url}/users/${encodeURIComponent(userId)}/groups`;
    return this.#ask({ method: 'GET', url, headers: { 'x-auth-token': own }, maxAnswerBytes });
  }
}

function logInBody(credentials: KeystoneCredentials): string {
  if ('application' in credentials) {
    const { application } = credentials;
    const identity = { methods: ['application_credential'], application_credential: application };
    return JSON.stringify({ auth: { identity } });
  }
  const { user, scope } = credentials;
  const { password, ...who } = user;
  const identity = { methods: ['password'], password: { user: { ...who, password } } };
  return JSON.stringify({ auth: { identity, scope: scopeOf(scope) } });
}

function scopeOf(scope: Extract<KeystoneCredentials, { user: unknown }>['scope']): unknown {
  if (scope === undefined) return 'unscoped';
  return 'trust' in scope ? { 'OS-TRUST:trust': { id: scope.trust } } : { project: scope.project };
}

/**
 * Parses Keystone's description of a token. Returns `undefined` if the value has a different form.
 */
export function readToken(body: unknown): IdentityToken | undefined {
  if (!tokenSchema.Check(body)) return undefined;
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

/** Returns an entity without Keystone's additional fields. */
function entityOf({ id, name, domain }: IdentityEntity): IdentityEntity {
  return { id, name, domain: { id: domain.id, name: domain.name } };
}
