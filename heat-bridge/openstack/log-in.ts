/** Logins to Keystone with the credentials of handles, stacks and services. */

import {
  type HttpResult,
  KeystoneClient,
  type KeystoneCredentials,
  type OutgoingRequest,
} from '#runtime';
import { type DeliveryOutcome, deliveryOutcomeOf, redactSecrets } from './service-answer.ts';

type Ask = (request: OutgoingRequest) => Promise<HttpResult>;

/** Credentials of a Keystone user for one project, as Heat's handles and metadata contain them. */
export interface Credentials {
  /** URL of Keystone, which ends with `/v3`. */
  readonly authUrl: string;
  readonly userId: string;
  readonly password: string;
  readonly projectId: string;
}

/**
 * Result of a login: the token with the body of Keystone's response, or the outcome of the failed
 * attempt, which says whether a retry can succeed.
 */
export type LoginResult =
  | { readonly isIn: true; readonly token: string; readonly body: string }
  | { readonly isIn: false; readonly outcome: DeliveryOutcome };

/**
 * Logs in to the project of the credentials. If Keystone rejects the credentials, the outcome is
 * final, because Heat deletes its users together with their stack.
 */
export function logInToKeystone(
  ask: Ask,
  { authUrl, userId, password, projectId }: Credentials,
): Promise<LoginResult> {
  const scope = { project: { id: projectId } };
  return requestToken(ask, authUrl, { user: { id: userId, password }, scope });
}

/**
 * Requests a token. If this fails, the result says whether a retry can succeed. The reason does not
 * contain the secret of the credentials.
 */
export async function requestToken(
  ask: Ask,
  authUrl: string,
  credentials: KeystoneCredentials,
): Promise<LoginResult> {
  const login = await new KeystoneClient(authUrl, ask).logIn(credentials);
  if (login.isIn) return login;
  const secret =
    'application' in credentials ? credentials.application.secret : credentials.user.password;
  const outcome = redactSecrets(deliveryOutcomeOf(login.result, []), [secret]);
  if (outcome.kind !== 'final' || login.result.kind !== 'answer') return { isIn: false, outcome };
  const reason =
    login.result.status === 201
      ? 'Keystone accepted the login but returned no token'
      : `login ${outcome.reason}`;
  return { isIn: false, outcome: { ...outcome, reason } };
}
