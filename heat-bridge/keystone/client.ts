/** Keystone, asked about tokens by a service's own log-in [Identity API v3: validate token]. */
import type { Logger } from 'pino';
import {
  AuthenticationError,
  type IdentityToken,
  logInBody,
  readToken,
  tokensUrl,
} from '../../master/index.ts';
import type { Ask, Exchange } from '../outgoing/exchange.ts';
import type { KeystoneOptions } from './options.ts';

/** What {@link KeystoneClient} needs. */
export interface KeystoneClientOptions extends Pick<KeystoneOptions, 'url' | 'user' | 'project'> {
  readonly ask: Ask;
  /** Milliseconds of a clock that only goes forward. */
  readonly monotonic: () => number;
  /** Fires when the bridge is closed. */
  readonly closing: AbortSignal;
  readonly log: Pick<Logger, 'warn'>;
}

/** Tokens with many roles are some kilobytes, catalogs of large clouds some tens. */
const maxAnswerBytes = 1_048_576;

/** A log-in that was refused is not tried again for so long: Keystone may lock the account. */
const refusedMs = 30_000;

/** The log is told of a Keystone that is away no more often. */
const tellEveryMs = 10_000;

/** See above. What it holds of secrets is in memory alone. */
export class KeystoneClient {
  readonly #options: KeystoneClientOptions;
  /** The service's own token. */
  #own: string | undefined;
  #logInUnderWay: Promise<string> | undefined;
  #refusedAt = -Infinity;
  #toldAt = -Infinity;

  constructor(options: KeystoneClientOptions) {
    this.#options = options;
  }

  /**
   * What Keystone says of a token; `undefined`: it is none, or has ended.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE where it cannot be asked
   */
  async validate(token: string): Promise<IdentityToken | undefined> {
    const own = this.#own ?? (await this.#renew());
    const first = await this.#ask(own, token);
    // Then it is the service's own token that has ended.
    const isOver = first.kind === 'answer' && first.status === 401;
    const exchange = isOver ? await this.#ask(await this.#renewed(own), token) : first;
    if (exchange.kind !== 'answer') throw this.#unavailable(exchange.reason);
    if (exchange.status === 404) return undefined;
    const found = exchange.status === 200 ? readToken(tryJson(exchange.body)) : undefined;
    if (found !== undefined) return found;
    throw this.#unavailable(`it answered with status ${exchange.status}`);
  }

  #ask(own: string, token: string): Promise<Exchange> {
    const { ask, url, closing } = this.#options;
    const headers = { 'x-auth-token': own, 'x-subject-token': token };
    const request = { method: 'GET', url: `${tokensUrl(url)}?nocatalog`, headers } as const;
    return ask({ ...request, maxAnswerBytes }, closing);
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
    const { ask, url, user, project, monotonic, closing } = this.#options;
    if (monotonic() - this.#refusedAt < refusedMs) throw this.#unavailable(refused);
    const body = logInBody(user, project);
    const request = { method: 'POST', url: tokensUrl(url), body } as const;
    const exchange = await ask({ ...request, maxAnswerBytes }, closing);
    if (exchange.kind !== 'answer') throw this.#unavailable(exchange.reason);
    const { status, headers } = exchange;
    const token = headers['x-subject-token'];
    if (status === 201 && typeof token === 'string') {
      this.#own = token;
      return token;
    }
    if (status !== 401) throw this.#unavailable(`it answered a log-in with status ${status}`);
    this.#refusedAt = monotonic();
    throw this.#unavailable(refused);
  }

  /** Why is for the operator: who asks may be anybody. */
  #unavailable(reason: string): AuthenticationError {
    const { log, monotonic } = this.#options;
    if (monotonic() - this.#toldAt >= tellEveryMs) {
      this.#toldAt = monotonic();
      log.warn({ reason }, 'keystone cannot be asked about tokens');
    }
    return new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'Keystone cannot be asked now');
  }
}

const refused = 'it refuses the credentials under saltbridge: bridge: keystone';

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
