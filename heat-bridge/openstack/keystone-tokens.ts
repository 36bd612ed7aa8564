/** Accepts tokens of Keystone in addition to the tokens of the master. */

import { hash } from 'node:crypto';
import type { ProjectSubject } from '#acl';
import {
  AuthenticationError,
  type ExtensionHost,
  type TokenHolder,
  type TokenHolders,
  TokenWatch,
} from '#master';
import {
  addressOwner,
  createDnsResolver,
  createHttpClient,
  FairSlots,
  FairTable,
  type IdentityToken,
  LimitExceeded,
  RecentAnswers,
} from '#runtime';
import { bridgeLimits } from '../limits.ts';
import { parseKeystoneOptions } from './keystone-options.ts';
import { TokenValidator } from './token-validator.ts';

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

/**
 * Form of Keystone's tokens. Fernet tokens are base64url; JWS tokens also contain dots. A token of
 * the master consists entirely of hexadecimal digits (64), so it does not match.
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
  /**
   * Cached results for tokens in `#known`, which Keystone has accepted before. Other tokens have a
   * separate cache, so their results cannot evict the results in this one.
   */
  readonly #answers: RecentAnswers<IdentityToken | undefined>;
  /**
   * Cached results for tokens that Keystone has not accepted before. A separate cache, so that
   * unknown tokens cannot evict results for accepted tokens.
   */
  readonly #answersOfUnknown: RecentAnswers<IdentityToken | undefined>;
  /** Projects of tokens that Keystone has accepted, by a digest of the token. */
  readonly #known = new FairTable<string>(bridgeLimits.knownTokens);
  readonly #watch: TokenWatch;
  readonly #gate = new FairSlots(bridgeLimits.tokenValidations);

  constructor(options: KeystoneTokensOptions) {
    const { monotonic } = options;
    this.#options = options;
    const cache = { maxAgeMs: tokenCacheMs, monotonic };
    this.#answers = new RecentAnswers({ ...cache, limit: bridgeLimits.validatedTokens });
    this.#answersOfUnknown = new RecentAnswers({ ...cache, limit: bridgeLimits.unknownTokens });
    this.#watch = new TokenWatch(async (token) => (await this.#find(token, '')) !== undefined);
  }

  /**
   * Returns the subject of a token, and watches the token.
   * @param address - address of the client. Default: unknown
   * @throws AuthenticationError ERR_EAUTH_TOKEN, also for a token without a project;
   * ERR_EAUTH_LIMIT, ERR_EAUTH_UNAVAILABLE
   */
  async hold(token: string, address = ''): Promise<Omit<TokenHolder, 'policy'>> {
    const subject = await this.#find(token, address);
    if (subject !== undefined) return { subject, ...this.#watch.watch(token) };
    const text = 'the token is invalid, expired or not scoped to a project';
    throw new AuthenticationError('ERR_EAUTH_TOKEN', text);
  }

  /** Stops watching all tokens. */
  close(): void {
    this.#watch.close();
  }

  async #find(token: string, address: string): Promise<ProjectSubject | undefined> {
    const digest = hash('sha256', token);
    const before = this.#known.get(digest);
    const owner = before === undefined ? `address ${addressOwner(address)}` : `project ${before}`;
    const answers = before === undefined ? this.#answersOfUnknown : this.#answers;
    const found = await answers.of(token, () => this.#ask(token, owner));
    if (found?.project === undefined || this.#options.now() >= found.expiresAt) {
      this.#known.delete(digest);
      return undefined;
    }
    const { project, user, roles } = found;
    if (before === undefined && this.#known.trySet(project.id, digest, project.id)) {
      this.#answers.note(token, found);
    }
    return { kind: 'project', project, user, roles };
  }

  async #ask(token: string, owner: string): Promise<IdentityToken | undefined> {
    try {
      return await this.#gate.run(owner, () => this.#options.validate(token));
    } catch (error) {
      if (!(error instanceof LimitExceeded)) throw error;
      throw new AuthenticationError(
        'ERR_EAUTH_LIMIT',
        'too many pending token validations; retry later',
      );
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
    hold: async (token, address) => {
      if (!looksLikeKeystoneToken(token)) return inner.hold(token, address);
      const held = await tokens.hold(token, address);
      return {
        ...held,
        get policy() {
          return host.policy();
        },
      };
    },
  });
}
