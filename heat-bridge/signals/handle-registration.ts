import Type, { type Static } from 'typebox';
import { compileSchema } from '#runtime';
import { BridgeError } from '../errors.ts';
import { parseForm } from '../http/route-schema.ts';
import { groupFields, isForGroups } from './handle-groups.ts';

const namePattern = { minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$' };

const Name = Type.String(namePattern);

const MinionId = Type.String({ minLength: 1, maxLength: 253 });

const strict = { additionalProperties: false };

/**
 * Registration of a handle. It lists what may signal the handle: minions, groups of minions, or
 * both.
 */
export const RegistrationSchema = Type.Object(
  {
    /**
     * Name of the handle in the signals of minions: letters, digits, `.`, `_` and `-`, at most 64
     * characters. A stack of an owner cannot have two handles with this name. A minion cannot
     * belong to two handles with this name.
     */
    alias: Name,
    /** Ids of minions that may signal the handle. */
    minions: Type.Optional(
      Type.Unsafe<readonly string[]>(
        Type.Array(MinionId, { minItems: 1, maxItems: 10_000, uniqueItems: true }),
      ),
    ),
    ...groupFields,
    /**
     * Names of the signals, if each minion sends several. They have the form of aliases. The minion
     * sends one signal for each name, with the tag `heat/<alias>/<name>`. Default: none; each
     * minion sends one signal, with the tag `heat/<alias>`.
     */
    members: Type.Optional(
      Type.Unsafe<readonly string[]>(Type.Array(Name, { maxItems: 1_000, uniqueItems: true })),
    ),
    /**
     * Whether an event without data means SUCCESS instead of FAILURE. Salt sends an event without
     * data if the minion cannot parse the data. Default: false.
     */
    emptyIsSuccess: Type.Optional(Type.Boolean()),
    /**
     * Identifier of a stack, for example its id. Signals of the handle count towards the quota of
     * this stack. Default: the alias.
     */
    stack: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    /** Owner of the handle, for example a project. Other owners cannot see the handle. */
    owner: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    /**
     * Expiry, in milliseconds since 1970. Default: 12 hours from now, the longest timeout of a wait
     * condition in Heat.
     */
    expiresAt: Type.Optional(Type.Integer({ minimum: 0 })),
    /**
     * Destination of signals, in one of these forms:
     * - the attribute `signal` of a handle in Heat, as an object or as its text
     * - an object with `endpoint` and `token`
     * - the text of the attribute `curl_cli`
     * - the URL of an AWS handle
     * - a webhook: `{ url, key }`
     *
     * The destination is encrypted at once, and never returned.
     */
    signal: Type.Unknown(),
  },
  strict,
);

/** Registration of a handle; {@link RegistrationSchema} documents its fields. */
export type HandleRegistration = Readonly<Static<typeof RegistrationSchema>>;

const isRegistration = compileSchema(RegistrationSchema);

/**
 * Parses the registration of a handle.
 * @throws BridgeError ERR_HANDLE_FORM
 */
export function parseHandleRegistration(given: unknown): HandleRegistration {
  const registration = parseForm(isRegistration, given, 'ERR_HANDLE_FORM', 'registration');
  if (registration.minions !== undefined || isForGroups(registration)) return registration;
  const text =
    '`minions` is missing; list ids of minions, or set `globs`, `nodegroups` or `projects`';
  throw new BridgeError('ERR_HANDLE_FORM', text);
}
