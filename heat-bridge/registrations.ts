/**
 * Registrations that services make: handles of signals, stacks and data spaces. Each has a name that
 * is unique to its owner. This module has their interface, their methods at the local socket, and how
 * one is found.
 */

import Type, { type TSchema } from 'typebox';
import { type AuditDetails, extensionMethod, type RpcTable } from '#master';
import { BridgeError, type BridgeErrorCode } from './errors.ts';

/** Owner of a registration. Default: any owner; if several have the name, it is ambiguous. */
export interface RegistrationOwner {
  readonly owner?: string;
}

/** Registrations of one kind, for programs. */
export interface RegistrationsApi<
  Registration,
  Info,
  Details = Info,
  Of extends RegistrationOwner = RegistrationOwner,
> {
  /**
   * Registers; durable when it resolves.
   * @param options - `replaces`: whether a registration of this name and owner may exist
   * @throws BridgeError `ERR_…_FORM`, `ERR_…_EXISTS`, `ERR_…_LIMIT` of the kind
   */
  add(
    registration: Registration,
    options?: RegistrationOwner & { readonly replaces?: boolean },
  ): Promise<Info>;
  list(selection?: RegistrationOwner): Promise<readonly Info[]>;
  /** @throws BridgeError `ERR_…_UNKNOWN` of the kind */
  show(name: string, of?: Of): Promise<Details>;
  /** Forgets a registration and its secrets. @throws BridgeError `ERR_…_UNKNOWN` of the kind */
  remove(name: string, of?: Of): Promise<Info>;
}

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 256 });

/** Fields of parameters that name an owner. */
export const ownerField = { owner: Type.Optional(Text) };

interface RegistrationRecords<Info> {
  /** Subject of the audit records, for example `stack`. */
  readonly subject: string;
  /** Field that names a registration. */
  readonly key: 'alias' | 'name';
  /** Audit details of a registration, without its name. */
  readonly detailsOf: (info: Info) => AuditDetails;
  /** Fields besides the owner that tell registrations of one name apart. */
  readonly selectors?: Readonly<Record<string, TSchema>>;
}

/** Returns the methods `add`, `list`, `show` and `remove` at the local socket. */
export function registrationMethods<Registration extends object, Info, Details>(
  api: RegistrationsApi<Registration, Info, Details>,
  { subject, key, detailsOf, selectors }: RegistrationRecords<Info>,
): RpcTable {
  const nameIn = (given: object): string => String(Object(given)[key]);
  const Which = Type.Unsafe<RegistrationOwner>(
    Type.Object({ [key]: Text, ...ownerField, ...selectors }, strict),
  );
  // `add` reads it more closely.
  const registration = Type.Unsafe<Registration>(Type.Object({ [key]: Text }));
  const ownerIn = (given: object): RegistrationOwner => {
    const { [key]: _, ...of } = Object(given);
    return of;
  };
  return {
    add: extensionMethod({
      parameters: Type.Object(
        { registration, replaces: Type.Optional(Type.Boolean()), ...ownerField },
        strict,
      ),
      args: (
        given: Registration,
        options?: RegistrationOwner & { readonly replaces?: boolean },
      ) => ({ registration: given, ...options }),
      call: (_api, { registration: given, ...options }) => api.add(given, options),
      audit: {
        action: `${subject}.add`,
        done: ({ registration: given }, info) => ({ what: nameIn(given), ...detailsOf(info) }),
        failed: ({ registration: given }) => ({ what: nameIn(given) }),
      },
    }),
    list: extensionMethod({
      parameters: Type.Object(ownerField, strict),
      call: (_api, of) => api.list(of),
    }),
    show: extensionMethod({
      parameters: Which,
      call: (_api, of) => api.show(nameIn(of), ownerIn(of)),
    }),
    remove: extensionMethod({
      parameters: Which,
      args: (name: string, of?: RegistrationOwner) => ({ [key]: name, ...of }),
      call: (_api, of) => api.remove(nameIn(of), ownerIn(of)),
      audit: {
        action: `${subject}.remove`,
        done: (of, info) => ({ what: nameIn(of), ...detailsOf(info) }),
        failed: (of) => ({ what: nameIn(of) }),
      },
    }),
  };
}

/** A registration that is kept. */
interface Registered {
  readonly name: string;
  readonly owner?: string | undefined;
}

/**
 * Returns the registration of a name.
 * @param owner - default: the only owner that has the name
 * @throws BridgeError with this code
 */
export function findRegistration<R extends Registered>(
  all: readonly R[],
  { name, owner }: Registered,
  { code, kind }: { readonly code: BridgeErrorCode; readonly kind: string },
): R {
  const own = registrationOf(all, { name, owner });
  if (own !== undefined) return own;
  const others = owner === undefined ? all.filter((it) => it.name === name) : [];
  const [only, another] = others;
  if (only !== undefined && another === undefined) return only;
  const several = another === undefined ? '' : '; several owners have one: name the owner';
  throw new BridgeError(code, `no ${kind} ${JSON.stringify(name.slice(0, 64))}${several}`);
}

/** Returns the registration that exactly this owner has, or `undefined`. */
export function registrationOf<R extends Registered>(
  all: readonly R[],
  { name, owner }: Registered,
): R | undefined {
  return all.find((it) => it.name === name && it.owner === owner);
}

const maxRegistrations = 10_000;
const maxOfOwner = 1_000;

/** Refuses a new registration beyond 1,000 of an owner and 10,000 in all. @throws BridgeError */
export function requireRegistrationRoom(
  all: readonly Registered[],
  owner: string | undefined,
  { code, kind }: { readonly code: BridgeErrorCode; readonly kind: string },
): void {
  const own = all.filter((it) => it.owner === owner).length;
  if (all.length < maxRegistrations && own < maxOfOwner) return;
  const text = `at most ${maxOfOwner} ${kind}s of an owner and ${maxRegistrations} in all`;
  throw new BridgeError(code, text);
}
