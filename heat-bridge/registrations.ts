/**
 * Registrations of services: handles of signals, stacks and data spaces. The name of a registration
 * is unique for its owner. All kinds share the API and the RPC methods in this module.
 */

import Type, { type TSchema } from 'typebox';
import { type AuditDetails, extensionMethod, type RpcTable } from '#master';

/**
 * Owner of a registration, for example a project. A look-up that names no owner finds the
 * registration without an owner. If there is none, it finds the registration of any owner, provided
 * that only one owner has a registration with the name.
 */
export interface RegistrationOwner {
  readonly owner?: string;
}

/**
 * Additional checks of a new handle, stack or data space, supplied by the caller of the API. Its
 * form is always checked.
 */
export interface RegistrationChecks {
  /**
   * Called immediately before the handle, stack or data space is stored. Throws if its owner may no
   * longer register it. The owner may have lost this right while another registration with the same
   * name was in progress.
   */
  readonly requirePermission?: (() => void) | undefined;
}

/** Registrations that were permitted and are being stored. */
export class PendingRegistrations {
  readonly #pending = new Set<Promise<unknown>>();

  /**
   * Calls `requirePermission`, and then `work`, which stores a new handle, stack or data space.
   * @throws the error of the check, or of `work`
   */
  async store<T>({ requirePermission }: RegistrationChecks, work: () => Promise<T>): Promise<T> {
    requirePermission?.();
    const stored = work();
    this.#pending.add(stored);
    try {
      return await stored;
    } finally {
      this.#pending.delete(stored);
    }
  }

  /** Resolves when all registrations that have been permitted so far are stored or have failed. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }
}

/** API for one kind of registrations. */
export interface RegistrationsApi<
  Registration,
  Info,
  Details = Info,
  Of extends RegistrationOwner = RegistrationOwner,
> {
  /**
   * Creates a registration. Resolves when it is durable.
   * @param options - `replaces`: whether the registration may replace one with the same name and
   * owner
   * @throws BridgeError with the code for this kind of registration, for example `ERR_STACK_FORM`,
   * `ERR_STACK_EXISTS` or `ERR_STACK_LIMIT`
   */
  add(
    registration: Registration,
    options?: RegistrationOwner & RegistrationChecks & { readonly replaces?: boolean },
  ): Promise<Info>;
  list(selection?: RegistrationOwner): Promise<readonly Info[]>;
  /**
   * Returns one registered handle, stack or data space.
   * @throws BridgeError, for example ERR_HANDLE_UNKNOWN for a handle
   */
  show(name: string, of?: Of): Promise<Details>;
  /**
   * Removes a registration and its secrets.
   * @throws BridgeError, for example ERR_HANDLE_UNKNOWN for a handle
   */
  remove(name: string, of?: Of): Promise<Info>;
}

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 256 });

/** Owner of a handle, stack or data space, as a parameter of RPC methods. */
export const ownerField = { owner: Type.Optional(Text) };

interface RegistrationRecords<Info> {
  /** Word for a registration in audit records, for example `stack`. */
  readonly subject: string;
  /** Name of the field that contains the name of a registration. */
  readonly key: 'alias' | 'name';
  /** Returns details of a registration for audit records, without its name. */
  readonly detailsOf: (info: Info) => AuditDetails;
  /**
   * Schemas of additional parameters. They select one of several stacks, handles or data spaces
   * with the same name.
   */
  readonly selectors?: Readonly<Record<string, TSchema>>;
}

/**
 * Returns the RPC methods `add`, `list`, `show` and `remove` for handles, stacks or data spaces.
 */
export function registrationMethods<Registration extends object, Info, Details>(
  api: RegistrationsApi<Registration, Info, Details>,
  { subject, key, detailsOf, selectors }: RegistrationRecords<Info>,
): RpcTable {
  const nameIn = (given: object): string => String(Object(given)[key]);
  const Which = Type.Unsafe<RegistrationOwner>(
    Type.Object({ [key]: Text, ...ownerField, ...selectors }, strict),
  );
  // `add` of the API validates the other fields.
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
