/** A handle: whose signals go where, and for how long. */
import type { TSchema } from 'typebox';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import { BridgeError } from '../errors.ts';
import type { Transport } from './destination.ts';

/** What a handle is registered with. */
export interface HandleRegistration {
  /**
   * How guests name it: letters, digits, `.`, `_` and `-`, at most 64. Unique to its owner, and to
   * each of its minions.
   */
  readonly alias: string;
  /** Ids of the minions that may signal it, exactly. */
  readonly minions: readonly string[];
  /**
   * Where one minion speaks for several: their names, of the same form as aliases. Default: each
   * minion counts once.
   */
  readonly members?: readonly string[];
  /** Whose quota its signals count against, for instance the stack's id. Default: the alias. */
  readonly stack?: string;
  /** Whose it is, for instance a project: others who are limited to theirs see nothing of it. */
  readonly owner?: string;
  /** Milliseconds since 1970. Default: 12 hours from now, the longest that a condition waits. */
  readonly expiresAt?: number;
  /**
   * As Heat gives it: the attribute `signal` of a handle (an object, or its text), an object of
   * `endpoint` and `token`, the text of `curl_cli`, the address that is the reference of an AWS
   * handle; or `{ url, key }` of a webhook. Sealed at once, and never shown.
   */
  readonly signal: unknown;
}

/** A handle as anybody may see it. */
export interface HandleInfo {
  readonly alias: string;
  /** Of this registration: another handle of the same alias inherits no signals. */
  readonly id: string;
  readonly transport: Transport;
  /** Scheme, host and port of the service. */
  readonly origin: string;
  /** Whether that is an endpoint that signals may be sent to. */
  readonly isListed: boolean;
  readonly minions: readonly string[];
  readonly members: readonly string[];
  readonly stack: string;
  readonly owner?: string;
  /** Milliseconds since 1970. */
  readonly registeredAt: number;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

const name = { minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$' };
const Name = Type.String(name);
const MinionId = Type.String({ minLength: 1, maxLength: 253 });

const fields = {
  minions: Type.Array(MinionId, { minItems: 1, maxItems: 10_000, uniqueItems: true }),
  members: Type.Optional(Type.Array(Name, { maxItems: 1_000, uniqueItems: true })),
  stack: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
  owner: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
  expiresAt: Type.Optional(Type.Integer({ minimum: 0 })),
  /** Read by `parseDestination`. */
  signal: Type.Unknown(),
};
const strict = { additionalProperties: false };

/** See {@link HandleRegistration}. */
export const registration: TSchema = Type.Object({ alias: Name, ...fields }, strict);

/** The same where the alias stands in the path. */
export const replacement: TSchema = Type.Object({ alias: Type.Optional(Name), ...fields }, strict);

const isRegistration = Compile(Type.Unsafe<HandleRegistration>(registration));

/** @throws BridgeError ERR_HANDLE_FORM */
export function checkedRegistration(given: unknown): HandleRegistration {
  const [first] = isRegistration.Errors(given);
  if (first === undefined) return isRegistration.Parse(given);
  const field = first.instancePath.slice(1).replaceAll('/', '.') || 'registration';
  throw new BridgeError('ERR_HANDLE_FORM', `${field}: ${first.message}`);
}

/**
 * Why a handle takes no signal of one of its minions now; `undefined`: it does.
 * @param now - milliseconds since 1970
 */
export function refusalBy(
  { members, expiresAt }: HandleInfo,
  member: string | undefined,
  now: number,
): 'expired' | 'member' | undefined {
  const isMember = member === undefined ? members.length === 0 : members.includes(member);
  if (!isMember) return 'member';
  return expiresAt <= now ? 'expired' : undefined;
}

const tagForm = /^heat\/([A-Za-z0-9][\w.-]{0,63})(?:\/([A-Za-z0-9][\w.-]{0,63}))?$/;

/** What a tag names: `heat/<alias>`, or `heat/<alias>/<member>`; `undefined`: no handle's. */
export function parseSignalTag(
  tag: string,
): { readonly alias: string; readonly member: string | undefined } | undefined {
  const [, alias, member] = tagForm.exec(tag) ?? [];
  return alias === undefined ? undefined : { alias, member };
}
