/** Accepts tokens of Keystone beside the tokens of the master. */

import type { ProjectSubject } from '#acl';
import { AuthenticationError, type ExtensionHost, type TokenHolders, TokenWatch } from '#master';
import {
  createDnsResolver,
  createHttpClient,
  type IdentityToken,
  RecentAnswers,
  Semaphore,
} from '#runtime';
import { parseKeystoneOptions } from './keystone-options.ts';
import { TokenValidator } from './token-validator.ts';

type TokenHolder = Awaited<ReturnType<ExtensionHost['holdToken']>>;

export interface KeystoneTokensOptions {
  /** `undefined`: it is none. @throws AuthenticationError ERR_EAUTH_UNAVAILABLE */
  readonly validate: (token: string) => Promise<IdentityToken | undefined>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Milliseconds of a clock that only goes forward. */
  readonly monotonic: () => number;
}

/** How long an answer holds; with the round of {@link TokenWatch} it is well within a minute. */
const tokenCacheMs = 30_000;

/** Tokens whose answers are remembered. */
const maxCachedTokens = 10_000;

/** Tokens that Keystone is asked about at once, and that may be waiting to be. */
const maxConcurrentValidations = 8;
const maxQueuedValidations = 256;

/** Fernet and JWS tokens: base64url, with dots in the latter. Ours are 64 hexadecimal digits. */
const keystoneTokenForm = /^(?=.*[^0-9a-fA-F])[A-Za-z0-9_.=-]{32,2048}$/;

/** Whether it may be a token of Keystone's; what may be one of ours is never shown to Keystone. */
export function looksLikeKeystoneToken(token: string): boolean {
  return keystoneTokenForm.test(token);
}

/** Callers with a token of Keystone's: who they are, for as long as Keystone says so. */
export class KeystoneTokens {
  readonly #options: KeystoneTokensOptions;
  readonly #answers: RecentAnswers<IdentityToken | undefined>;
  readonly #watch: TokenWatch;
  readonly #gate = new Semaphore(maxConcurrentValidations);
  #waiting = 0;

  constructor(options: KeystoneTokensOptions) {
    const { monotonic } = options;
    this.#options = options;
    this.#answers = new RecentAnswers({
      maxAgeMs: tokenCacheMs,
      maxAnswers: maxCachedTokens,
      monotonic,
    });
    this.#watch = new TokenWatch(async (token) => (await this.#find(token)) !== undefined);
  }

  /**
   * Whom a token is of.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, also for one without a project; ERR_EAUTH_LIMIT,
   * ERR_EAUTH_UNAVAILABLE
   */
  async hold(token: string): Promise<Omit<TokenHolder, 'policy'>> {
    const subject = await this.#find(token);
    if (subject !== undefined) return { subject, ...this.#watch.watch(token) };
    const text = 'the token is not valid (any more), or is for no project';
    throw new AuthenticationError('ERR_EAUTH_TOKEN', text);
  }

  /** Looks no longer whether tokens end. */
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
      throw new AuthenticationError('ERR_EAUTH_LIMIT', 'too many tokens are being looked at');
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
 * Returns a wrapper that finds the subjects of Keystone's tokens as well. The form of a token tells
 * the two kinds apart.
 * @param section - `saltbridge: bridge: keystone:`
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
