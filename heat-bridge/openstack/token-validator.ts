/** Validates tokens with Keystone, under a service account. */

import type { Logger } from 'pino';
import { AuthenticationError } from '#master';
import {
  type HttpClient,
  type IdentityToken,
  KeystoneClient,
  readJsonAnswer,
  readToken,
} from '#runtime';
import type { KeystoneOptions } from './keystone-options.ts';

export interface TokenValidatorOptions extends Pick<KeystoneOptions, 'url' | 'user' | 'project'> {
  readonly ask: HttpClient;
  /** Returns the time of a monotonic clock, in milliseconds. */
  readonly monotonic: () => number;
  /** Aborted when the bridge closes. */
  readonly closing: AbortSignal;
  readonly log: Pick<Logger, 'warn'>;
}

/**
 * Minimum time between a rejected login and the next one, in milliseconds. Keystone may lock an
 * account after repeated failures.
 */
const loginRetryMs = 30_000;

/** Minimum interval between warnings that Keystone is unavailable, in milliseconds. */
const logIntervalMs = 10_000;

/** Validates tokens with Keystone. Secrets are stored in memory only. */
export class TokenValidator {
  readonly #options: TokenValidatorOptions;
  readonly #client: KeystoneClient;
  /** Current token of the service account. */
  #own: string | undefined;
  #logInUnderWay: Promise<string> | undefined;
  #refusedAt = -Infinity;
  #warnedAt = -Infinity;

  constructor(options: TokenValidatorOptions) {
    this.#options = options;
    const { url, ask, closing } = options;
    this.#client = new KeystoneClient(url, (request) => ask(request, closing));
  }

  /**
   * Returns Keystone's description of a token, or `undefined` if the token is invalid or expired.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE if Keystone cannot be queried
   */
  async validate(token: string): Promise<IdentityToken | undefined> {
    const own = this.#own ?? (await this.#renew());
    const first = await this.#client.describe(own, token);
    // Status 401 means that the service account's own token has expired.
    const isOver = first.kind === 'answer' && first.status === 401;
    const exchange = isOver ? await this.#client.describe(await this.#renewed(own), token) : first;
    if (exchange.kind !== 'answer') throw this.#unavailable(exchange.reason);
    if (exchange.status === 404) return undefined;
    const body = exchange.status === 200 ? await readJsonAnswer(exchange.body) : undefined;
    const found = readToken(body);
    if (found !== undefined) return found;
    throw this.#unavailable(`Keystone responded with status ${exchange.status}`);
  }

  /**
   * Returns a new token of the service account in place of an expired one. Concurrent callers get
   * the same token.
   */
  async #renewed(ended: string): Promise<string> {
    if (this.#own === ended) this.#own = undefined;
    return this.#own ?? this.#renew();
  }

  /** Logs in, or joins the login in progress. */
  #renew(): Promise<string> {
    this.#logInUnderWay ??= this.#logIn().finally(() => {
      this.#logInUnderWay = undefined;
    });
    return this.#logInUnderWay;
  }

  async #logIn(): Promise<string> {
    const { user, project, monotonic } = this.#options;
    if (monotonic() - this.#refusedAt < loginRetryMs) throw this.#unavailable(credentialsRefused);
    const login = await this.#client.logIn({ user, scope: { project } });
    if (login.isIn) {
      this.#own = login.token;
      return login.token;
    }
    const { result } = login;
    if (result.kind !== 'answer') throw this.#unavailable(result.reason);
    const { status } = result;
    if (status !== 401)
      throw this.#unavailable(`Keystone responded to the login with status ${status}`);
    this.#refusedAt = monotonic();
    throw this.#unavailable(credentialsRefused);
  }

  /**
   * Logs the reason. Returns an error without the reason, because the caller is not authenticated.
   */
  #unavailable(reason: string): AuthenticationError {
    const { log, monotonic } = this.#options;
    if (monotonic() - this.#warnedAt >= logIntervalMs) {
      this.#warnedAt = monotonic();
      log.warn({ reason }, 'cannot validate tokens of callers, because Keystone is unavailable');
    }
    return new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'Keystone is unavailable; retry later');
  }
}

const credentialsRefused = 'Keystone rejected the credentials under saltbridge: bridge: keystone';
