import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** Meaning and remedy of the authentication error codes, for operators. */
export const authenticationErrors = {
  ERR_EAUTH: {
    meaning: 'The log-in failed: the user name, password or eauth is wrong.',
    action: 'Check all three; the eauth must be listed under external_auth. No details are given.',
  },
  ERR_EAUTH_LIMIT: {
    meaning: 'Too many failed log-ins of this user from this address, or too many concurrent ones.',
    action: 'Wait a minute; other users and addresses are not affected.',
    retry: true,
  },
  ERR_EAUTH_UNAVAILABLE: {
    meaning: 'The authentication service is unavailable now, or on this machine.',
    action: 'Fix the cause in the message; existing tokens are not affected.',
    retry: true,
  },
  ERR_EAUTH_TOKEN: {
    meaning: 'The token is invalid, expired or revoked, or its user may no longer log in.',
    action: 'Log in again.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Error of a failed log-in or an invalid token. */
export class AuthenticationError extends SaltbridgeError<keyof typeof authenticationErrors> {}

/** Meaning and remedy of `ERR_DENIED`, for operators. */
export const authorizationErrors: Readonly<Record<'ERR_DENIED', ErrorEntry>> = {
  ERR_DENIED: {
    meaning:
      'No rule permits the action of this user, or a rule denies the action; nothing was done.',
    action: 'Find the deciding rule with saltbridge acl explain user:NAME; see docs/policy.md.',
  },
};

/**
 * Error of a request that the user's rights do not permit. The master's log contains the name of
 * the rule that decided.
 */
export class AuthorizationError extends SaltbridgeError<'ERR_DENIED'> {
  constructor(message: string) {
    super('ERR_DENIED', message);
  }
}
