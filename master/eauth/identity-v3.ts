/**
 * What is asked of OpenStack's Keystone, and what it answers; the way there is somebody else's
 * [Identity API v3: auth/tokens].
 */
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import type { KeystoneEntity } from '../../acl/index.ts';

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
const isTokenBody = Compile(
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
