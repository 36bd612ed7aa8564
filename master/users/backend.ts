/** Interface of a log-in backend, which authenticates users. backends.ts lists the backends. */

import type { BackendSettings } from '#config';

/** Authenticated user. */
export interface Authenticated {
  readonly user: string;
  /** Groups that the backend confirms. */
  readonly groups: readonly string[];
  /** End of the backend's confirmation, in milliseconds since 1970. Default: unspecified. */
  readonly until?: number;
}

/** Current status of a user who logged in before. */
export type Standing =
  | { readonly state: 'valid'; readonly groups: readonly string[] }
  /** The user no longer exists, or may not log in. */
  | { readonly state: 'gone' };

/** Backend that authenticates users. */
export interface LoginBackend {
  /** Digest of the options from which the backend was created. */
  readonly madeFrom?: string;
  /** Name of the backend under `external_auth`. */
  readonly name: BackendSettings['kind'];
  /**
   * Verifies credentials.
   * @returns the user, or `undefined` without a reason if the credentials are invalid
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE if they cannot be verified
   */
  authenticate(credentials: Credentials, signal: AbortSignal): Promise<Authenticated | undefined>;
  /** Returns the reason why the backend cannot work on this machine. Default: none. */
  obstacle?(): Promise<string | undefined>;
  /**
   * Returns whether a user who logged in may still do so. Backends that cannot check this lack the
   * method; their tokens are valid for at most one hour.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE if the check is impossible at the moment
   */
  standingOf?(user: KnownUser, signal: AbortSignal): Promise<Standing>;
}

/** User who logged in before. */
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
