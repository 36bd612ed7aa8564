/** The interface of a back end, which authenticates users. backends.ts has the list of them. */

import type { BackendSettings } from '#config';

/** Who logged in. */
export interface Authenticated {
  readonly user: string;
  /** Groups that the back end vouches for. */
  readonly groups: readonly string[];
  /** The back end vouches no longer than so, milliseconds since 1970. Default: it does not say. */
  readonly until?: number;
}

/** What a back end says of somebody who logged in before. */
export type Standing =
  | { readonly state: 'valid'; readonly groups: readonly string[] }
  /** There is no such user any more, or they may not log in. */
  | { readonly state: 'gone' };

/** One way to authenticate users. */
export interface LoginBackend {
  /** Tells the options that it was made from. */
  readonly madeFrom?: string;
  /** Its name under `external_auth`. */
  readonly name: BackendSettings['kind'];
  /**
   * Who these credentials belong to.
   * @returns `undefined`: to nobody; why is not told
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE when it cannot be found out
   */
  authenticate(credentials: Credentials, signal: AbortSignal): Promise<Authenticated | undefined>;
  /** Why nobody can log in by it on this machine. Default: nothing is in the way. */
  obstacle?(): Promise<string | undefined>;
  /**
   * Whether a user who logged in may still. A back end that cannot tell has no such method; its
   * tokens live an hour at most.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE when it cannot be found out now
   */
  standingOf?(user: KnownUser, signal: AbortSignal): Promise<Standing>;
}

/** Somebody who logged in before. */
export interface KnownUser {
  readonly user: string;
  readonly groups: readonly string[];
}

/** What somebody proves who they are with. */
interface Credentials {
  /** 1 to 256 characters, none of them a control character, no space at either end. */
  readonly username: string;
  /** 1 to 1,024 characters (16,384 for `jwt`), no NUL or line break. */
  readonly password: string;
}
