/** Callers with a token of Keystone's: who they are, for as long as Keystone says so. */
import type { ProjectSubject } from '../../acl/index.ts';
import {
  AuthenticationError,
  type IdentityToken,
  RecentAnswers,
  type TokenHolder,
  TokenWatch,
} from '../../master/index.ts';
import { Semaphore } from '../../runtime/index.ts';

/** What {@link KeystoneTokens} needs. */
export interface KeystoneTokensOptions {
  /** `undefined`: it is none. @throws AuthenticationError ERR_EAUTH_UNAVAILABLE */
  readonly validate: (token: string) => Promise<IdentityToken | undefined>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Milliseconds of a clock that only goes forward. */
  readonly monotonic: () => number;
}

/** How long an answer holds; with the round of {@link TokenWatch} it is well within a minute. */
// protection: keystone-tokens-for-ever-1
const maxAgeMs = 30_000;

/** Tokens whose answers are remembered. */
const maxAnswers = 10_000;

/** Tokens that Keystone is asked about at once, and that may be waiting to be. */
const atOnce = 8;
const maxWaiting = 256;

/** Fernet and JWS tokens: base64url, with dots in the latter. Ours are 64 hexadecimal digits. */
// protection: own-tokens-elsewhere
const form = /^(?=.*[^0-9a-fA-F])[A-Za-z0-9_.=-]{32,2048}$/;

/** Whether it may be a token of Keystone's; what may be one of ours is never shown to Keystone. */
export function isKeystoneForm(token: string): boolean {
  return form.test(token);
}

/** See above. */
export class KeystoneTokens {
  readonly #options: KeystoneTokensOptions;
  readonly #answers: RecentAnswers<IdentityToken | undefined>;
  readonly #watch: TokenWatch;
  readonly #gate = new Semaphore(atOnce);
  #waiting = 0;

  constructor(options: KeystoneTokensOptions) {
    const { monotonic } = options;
    this.#options = options;
    this.#answers = new RecentAnswers({ maxAgeMs, maxAnswers, monotonic });
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
    // protection: keystone-tokens-for-ever-2
    if (found?.project === undefined || this.#options.now() >= found.expiresAt) return undefined;
    const { project, user, roles } = found;
    return { kind: 'project', project, user, roles };
  }

  async #ask(token: string): Promise<IdentityToken | undefined> {
    if (this.#waiting >= maxWaiting) {
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
