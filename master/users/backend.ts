/**
 * Interface of a log-in backend, which authenticates users. backends.ts contains the list of
 * backends.
 */

import type { BackendSettings } from '#config';

/** User whose credentials a backend has verified. */
export interface Authenticated {
  readonly user: string;
  /** Groups of the user, according to the backend. */
  readonly groups: readonly string[];
  /**
   * Time until which the log-in is valid according to the backend, in milliseconds since 1970.
   * Default: unlimited.
   */
  readonly until?: number;
}

/** Whether a user who has logged in before may still log in. */
export type Standing =
  | { readonly state: 'valid'; readonly groups: readonly string[] }
  /** The user no longer exists, or may not log in. */
  | { readonly state: 'gone' };

/** Backend that verifies the credentials of users, for example with LDAP or PAM. */
export interface LoginBackend {
  /**
   * Digest of the options from which the backend was created. If they change, the backend is
   * created anew.
   */
  readonly madeFrom?: string;
  /** Name of the backend under `external_auth`. */
  readonly name: BackendSettings['kind'];
  /**
   * Verifies credentials.
   * @returns the user, or `undefined` if the credentials are invalid. The result does not contain
   * the reason
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE if the backend cannot verify them at the
   * moment
   */
  authenticate(credentials: Credentials, signal: AbortSignal): Promise<Authenticated | undefined>;
  /** Returns the reason why the backend cannot work on this machine. Default: there is none. */
  obstacle?(): Promise<string | undefined>;
  /**
   * Returns whether a user who has logged in before may still log in, and the user's current
   * groups. Backends that cannot check this do not have the method. Their tokens are valid for at
   * most one hour.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE if the check is impossible at the moment
   */
  standingOf?(user: KnownUser, signal: AbortSignal): Promise<Standing>;
}

/** User who has logged in before. */
export interface KnownUser {
  readonly user: string;
  readonly groups: readonly string[];
}

/** Credentials of a log-in attempt. */
interface Credentials {
  /** User name of 1 to 256 characters, without control characters and surrounding spaces. */
  readonly username: string;
  /** Password of 1 to 1,024 characters (16,384 for `jwt`), without NUL and line breaks. */
  readonly password: string;
}
