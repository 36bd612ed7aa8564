/** Validates tokens with Keystone, as a service with a log-in of its own. */

import type { Logger } from 'pino';
import { AuthenticationError } from '#master';
import {
  type HttpClient,
  type IdentityToken,
  KeystoneClient,
  readToken,
  tryParseJson,
} from '#runtime';
import type { KeystoneOptions } from './keystone-options.ts';

export interface TokenValidatorOptions extends Pick<KeystoneOptions, 'url' | 'user' | 'project'> {
  readonly ask: HttpClient;
  /** Milliseconds of a clock that only goes forward. */
  readonly monotonic: () => number;
  /** Fires when the bridge is closed. */
  readonly closing: AbortSignal;
  readonly log: Pick<Logger, 'warn'>;
}

/** A log-in that was refused is not tried again for so long: Keystone may lock the account. */
const loginRetryMs = 30_000;

/** The log is told of a Keystone that is away no more often. */
const logIntervalMs = 10_000;

/** Validates tokens with Keystone. Its secrets are in memory only. */
export class TokenValidator {
  readonly #options: TokenValidatorOptions;
  readonly #client: KeystoneClient;
  /** The service's own token. */
  #own: string | undefined;
  #logInUnderWay: Promise<string> | undefined;
  #refusedAt = -Infinity;
  #toldAt = -Infinity;

  constructor(options: TokenValidatorOptions) {
    this.#options = options;
    const { url, ask, closing } = options;
    this.#client = new KeystoneClient(url, (request) => ask(request, closing));
  }

  /**
   * What Keystone says of a token; `undefined`: it is none, or has ended.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE where it cannot be asked
   */
  async validate(token: string): Promise<IdentityToken | undefined> {
    const own = this.#own ?? (await this.#renew());
    const first = await this.#client.describe(own, token);
    // Then it is the service's own token that has ended.
    const isOver = first.kind === 'answer' && first.status === 401;
    const exchange = isOver ? await this.#client.describe(await this.#renewed(own), token) : first;
    if (exchange.kind !== 'answer') throw this.#unavailable(exchange.reason);
    if (exchange.status === 404) return undefined;
    const found = exchange.status === 200 ? readToken(tryParseJson(exchange.body)) : undefined;
    if (found !== undefined) return found;
    throw this.#unavailable(`it answered with status ${exchange.status}`);
  }

  /** Whoever finds out late that a token has ended takes the one that came after it. */
  async #renewed(ended: string): Promise<string> {
    if (this.#own === ended) this.#own = undefined;
    return this.#own ?? this.#renew();
  }

  /** One log-in at a time. */
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
    if (status !== 401) throw this.#unavailable(`it answered a log-in with status ${status}`);
    this.#refusedAt = monotonic();
    throw this.#unavailable(credentialsRefused);
  }

  /** Why is for the operator: who asks may be anybody. */
  #unavailable(reason: string): AuthenticationError {
    const { log, monotonic } = this.#options;
    if (monotonic() - this.#toldAt >= logIntervalMs) {
      this.#toldAt = monotonic();
      log.warn({ reason }, 'keystone cannot be asked about tokens');
    }
    return new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'Keystone cannot be asked now');
  }
}

const credentialsRefused = 'it refuses the credentials under saltbridge: bridge: keystone';
