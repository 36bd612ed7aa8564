/** Accepts tokens of Keystone in addition to the tokens of the master. */

import type { ProjectSubject } from '#acl';
import { AuthenticationError, type ExtensionHost, type TokenHolders, TokenWatch } from '#master';
import {
  createDnsResolver,
  createHttpClient,
  type IdentityToken,
  RecentAnswers,
  Semaphore,
} from '#runtime';
import { bridgeLimits } from '../limits.ts';
import { parseKeystoneOptions } from './keystone-options.ts';
import { TokenValidator } from './token-validator.ts';

type TokenHolder = Awaited<ReturnType<ExtensionHost['holdToken']>>;

export interface KeystoneTokensOptions {
  /**
   * Validates a token with Keystone. Returns `undefined` if the token is invalid.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE
   */
  readonly validate: (token: string) => Promise<IdentityToken | undefined>;
  /** Returns the current time, in milliseconds since 1970. */
  readonly now: () => number;
  /** Returns the time of a monotonic clock, in milliseconds. */
  readonly monotonic: () => number;
}

/**
 * Time for which the result of a validation is cached, in milliseconds. {@link TokenWatch} adds its
 * own interval, so that a revoked token is detected within a minute.
 */
const tokenCacheMs = 30_000;

const maxQueuedValidations = 256;

/**
 * Form of Keystone's tokens. Fernet tokens are base64url; JWS tokens also contain dots. A token of
 * the master does not match, because it has only 64 hexadecimal digits.
 */
const keystoneTokenForm = /^(?=.*[^0-9a-fA-F])[A-Za-z0-9_.=-]{32,2048}$/;

/**
 * Whether a token has the form of a Keystone token. Only tokens of this form are sent to Keystone.
 * A token of the master is never sent.
 */
export function looksLikeKeystoneToken(token: string): boolean {
  return keystoneTokenForm.test(token);
}

/**
 * Authenticates callers with Keystone tokens, and checks repeatedly that Keystone still accepts the
 * tokens.
 */
export class KeystoneTokens {
  readonly #options: KeystoneTokensOptions;
  readonly #answers: RecentAnswers<IdentityToken | undefined>;
  readonly #watch: TokenWatch;
  readonly #gate = new Semaphore(bridgeLimits.tokenValidations);
  #waiting = 0;

  constructor(options: KeystoneTokensOptions) {
    const { monotonic } = options;
    this.#options = options;
    this.#answers = new RecentAnswers({
      maxAgeMs: tokenCacheMs,
      limit: bridgeLimits.validatedTokens,
      monotonic,
    });
    this.#watch = new TokenWatch(async (token) => (await this.#find(token)) !== undefined);
  }

  /**
   * Returns the subject of a token, and watches the token.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, also for a token without a project;
   * ERR_EAUTH_LIMIT, ERR_EAUTH_UNAVAILABLE
   */
  async hold(token: string): Promise<Omit<TokenHolder, 'policy'>> {
    const subject = await this.#find(token);
    if (subject !== undefined) return { subject, ...this.#watch.watch(token) };
    const text = 'the token is invalid, expired or not scoped to a project';
    throw new AuthenticationError('ERR_EAUTH_TOKEN', text);
  }

  /** Stops watching all tokens. */
  close(): void {
    this.#watch.close();
  }

  async #find(token: string): Promise<ProjectSubject | undefined> {
    const found = await this.#answers.of(token, () => this.#ask(token));
    if (found?.project === undefined || this.#options.now() >= found.expiresAt) return undefined;
    const { project, user, roles } = found;
    return { kind: 'project', project, user, roles };
  }

  async #ask(token: string): Promise<IdentityToken | undefined> {
    if (this.#waiting >= maxQueuedValidations) {
      throw new AuthenticationError(
        'ERR_EAUTH_LIMIT',
        'too many pending token validations; retry later',
      );
    }
    this.#waiting += 1;
    try {
      return await this.#gate.run(() => this.#options.validate(token));
    } finally {
      this.#waiting -= 1;
    }
  }
}

/**
 * Returns a function that adds Keystone tokens to the tokens that the master accepts. The form of a
 * token determines whether the master or Keystone validates it.
 * @param section - value of `saltbridge: bridge: keystone:`
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function createKeystoneHolders(
  host: Pick<ExtensionHost, 'closing' | 'logger' | 'now' | 'policy'>,
  section: unknown,
): (inner: TokenHolders) => TokenHolders {
  const { endpoints, timeoutMs, ...who } = parseKeystoneOptions(section);
  const { closing, now } = host;
  const log = host.logger.child({ part: 'keystone' });
  const monotonic = (): number => performance.now();
  const ask = createHttpClient({ endpoints, timeoutMs, resolve: createDnsResolver() });
  const validator = new TokenValidator({ ...who, ask, monotonic, closing, log });
  const tokens = new KeystoneTokens({ validate: (it) => validator.validate(it), now, monotonic });
  closing.addEventListener('abort', () => tokens.close(), { once: true });
  return (inner) => ({
    hold: async (token) => {
      if (!looksLikeKeystoneToken(token)) return inner.hold(token);
      const held = await tokens.hold(token);
      return {
        ...held,
        get policy() {
          return host.policy();
        },
      };
    },
  });
}
