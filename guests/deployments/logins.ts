/** Cache of Keystone tokens. A token is used only for the stack whose credentials obtained it. */

import { hash } from 'node:crypto';
import { type Ask, publicServiceUrl, requestToken } from '#heat-bridge';
import {
  FairTable,
  type HttpResult,
  type KeystoneCredentials,
  type OutgoingRequest,
} from '#runtime';
import { guestLimits } from '../limits.ts';
import type { OwnerLogin, ServerLogin } from './stacks.ts';

/** Token, and the URLs of the services that accept it. */
export interface ServiceSession {
  /** URL of heat-api, with the project. `undefined` if the service catalog does not contain it. */
  readonly heat: string | undefined;
  readonly zaqar: string | undefined;
  readonly token: string;
}

/** Session, or the reason why the login failed. */
export type LoginOutcome =
  | { readonly ok: true; readonly session: ServiceSession }
  | { readonly ok: false; readonly reason: string };

/** Logs in on demand, and caches tokens in memory until a service rejects one. */
export class StackLogins {
  readonly #sessions = new FairTable<ServiceSession>(guestLimits.stackSessions);
  readonly #logins = new Map<string, Promise<LoginOutcome>>();

  /**
   * Returns a session. The servers of a stack are read in parallel, so concurrent calls for a stack
   * share one login.
   * @param stack - id of the registration with these credentials
   */
  async session(ask: Ask, stack: string, login: OwnerLogin | ServerLogin): Promise<LoginOutcome> {
    const key = keyOf(stack, login);
    const known = this.#sessions.get(key);
    if (known !== undefined) return { ok: true, session: known };
    const begun = this.#logins.get(key);
    if (begun !== undefined) return begun;
    const coming = this.#logIn(ask, { stack, key }, login).finally(() => this.#logins.delete(key));
    this.#logins.set(key, coming);
    return coming;
  }

  async #logIn(
    ask: Ask,
    { stack, key }: { readonly stack: string; readonly key: string },
    login: OwnerLogin | ServerLogin,
  ): Promise<LoginOutcome> {
    const result = await requestToken(ask, login.auth_url, credentialsOf(login));
    if (!result.isIn) {
      const { outcome } = result;
      return {
        ok: false,
        reason: 'reason' in outcome ? outcome.reason : 'the login to Keystone failed',
      };
    }
    const { token, body } = result;
    const session = {
      token,
      heat: await publicServiceUrl(body, 'orchestration', login.region_name),
      zaqar: await publicServiceUrl(body, 'messaging', login.region_name),
    };
    this.#sessions.trySet(stack, key, session);
    return { ok: true, session };
  }

  /** Removes a rejected token from the cache, if the cache contains no newer one. */
  forget(stack: string, login: OwnerLogin | ServerLogin, token: string): void {
    const key = keyOf(stack, login);
    if (this.#sessions.peek(key)?.token === token) this.#sessions.delete(key);
  }

  /**
   * Sends a request with a token. If the service rejects the token, logs in again and repeats the
   * request once.
   * @param request - creates the request for a session; returns `undefined` if the service catalog
   * does not contain the service
   */
  async ask(
    ask: Ask,
    stack: string,
    login: OwnerLogin | ServerLogin,
    request: (session: ServiceSession) => OutgoingRequest | undefined,
  ): Promise<HttpResult> {
    for (let attempt = 0; ; attempt += 1) {
      const found = await this.session(ask, stack, login);
      if (!found.ok) return { kind: 'unreachable', reason: found.reason };
      const made = request(found.session);
      if (made === undefined) {
        return {
          kind: 'unreachable',
          reason: "Keystone's service catalog does not contain the service",
        };
      }
      const headers = { ...made.headers, 'x-auth-token': found.session.token };
      const result = await ask({ ...made, headers });
      if (result.kind !== 'answer' || result.status !== 401) return result;
      this.forget(stack, login, found.session.token);
      if (attempt > 0) return result;
    }
  }
}

/** Returns a key that is unique to the stack and the credentials. */
function keyOf(stack: string, login: OwnerLogin | ServerLogin): string {
  return `${stack} ${hash('sha256', JSON.stringify(login))}`;
}

function credentialsOf(login: OwnerLogin | ServerLogin): KeystoneCredentials {
  if ('application_credential_id' in login) {
    const { application_credential_id: id, application_credential_secret: secret } = login;
    return { application: { id, secret } };
  }
  const user = { id: login.user_id, password: login.password };
  if ('project_id' in login) return { user, scope: { project: { id: login.project_id } } };
  return { user, scope: { trust: login.trust_id } };
}
