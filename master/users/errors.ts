/** Why somebody is not let in, or may not do what they ask for. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** What each code means to the person who meets it. */
export const authenticationErrors = {
  ERR_EAUTH: {
    meaning: 'The log-in failed: another user name, password or eauth is needed.',
    action: 'Check all three; the eauth must stand under external_auth. Which it was is not told.',
  },
  ERR_EAUTH_LIMIT: {
    meaning: 'Too many log-ins: failed ones of this user from there, or ones under way at once.',
    action: 'Wait a minute; others, and this user from elsewhere, can log in meanwhile.',
    retry: true,
  },
  ERR_EAUTH_UNAVAILABLE: {
    meaning: 'What authenticates this user cannot be asked now, or not on this machine.',
    action: 'Do what the message says; the tokens that were given stay as they are.',
    retry: true,
  },
  ERR_EAUTH_TOKEN: {
    meaning: 'The token is none, has expired, was revoked, or its user may no longer log in.',
    action: 'Log in again.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** A failed log-in, or a token that is not valid. */
export class AuthenticationError extends SaltbridgeError<keyof typeof authenticationErrors> {}

/** What `ERR_DENIED` means to the person who meets it. */
export const authorizationErrors: Readonly<Record<'ERR_DENIED', ErrorEntry>> = {
  ERR_DENIED: {
    meaning: 'No rule lets this user do so, or one forbids it; nothing was done.',
    action: 'saltbridge acl explain user:NAME says which rule decides; see docs/policy.md.',
  },
};

/** A user may not do what they asked for. The rule that decided is in the master's log. */
export class AuthorizationError extends SaltbridgeError<'ERR_DENIED'> {
  constructor(message: string) {
    super('ERR_DENIED', message);
  }
}
