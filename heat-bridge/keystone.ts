/**
 * Keystone: reads its options, validates tokens of services, and accepts them beside the master's own.
 */

import type { Logger } from 'pino';
import Type from 'typebox';
import type { ProjectSubject, Subject } from '#acl';
import {
  AuthenticationError,
  type EntityReference,
  type ExtensionHost,
  type IdentityToken,
  logInBody,
  RecentAnswers,
  readToken,
  type TokenHolder,
  TokenWatch,
  tokensUrl,
} from '#master';
import {
  type AllowedEndpoint,
  type ConfiguredEndpoint,
  createDnsResolver,
  createHttpClient,
  type HttpClient,
  type HttpResult,
  parseAllowedEndpoints,
  readEndpoint,
  Semaphore,
  tryParseJson,
} from '#runtime';
import { BridgeError } from './errors.ts';
import { BridgeOptionsError, parseSection } from './options.ts';

// The client of Keystone, with a log-in of its own [Identity API v3: validate token].

export interface KeystoneClientOptions extends Pick<KeystoneOptions, 'url' | 'user' | 'project'> {
  readonly ask: HttpClient;
  /** Milliseconds of a clock that only goes forward. */
  readonly monotonic: () => number;
  /** Fires when the bridge is closed. */
  readonly closing: AbortSignal;
  readonly log: Pick<Logger, 'warn'>;
}

/** Tokens with many roles are some kilobytes, catalogs of large clouds some tens. */
const maxAnswerBytes = 1_048_576;

/** A log-in that was refused is not tried again for so long: Keystone may lock the account. */
const loginRetryMs = 30_000;

/** The log is told of a Keystone that is away no more often. */
const logIntervalMs = 10_000;

/** Validates tokens with Keystone. Its secrets are in memory only. */
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
    const found = exchange.status === 200 ? readToken(tryParseJson(exchange.body)) : undefined;
    if (found !== undefined) return found;
    throw this.#unavailable(`it answered with status ${exchange.status}`);
  }

  #ask(own: string, token: string): Promise<HttpResult> {
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
    if (monotonic() - this.#refusedAt < loginRetryMs) throw this.#unavailable(credentialsRefused);
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

// Options `saltbridge: bridge: keystone:`.

const OptionText = Type.String({ minLength: 1, maxLength: 4096 });

const KeystoneSection = Type.Object(
  {
    url: Type.String({
      pattern: '^https?://.+/v3/?$',
      maxLength: 4096,
      description: 'an address with http or https that ends with /v3',
    }),
    /** As those of signals' endpoints. */
    addresses: Type.Optional(Type.Array(OptionText)),
    ca_file: Type.Optional(OptionText),
    /** Of a user who may look at others' tokens: in Keystone's own policy a `service` or `admin`. */
    username: OptionText,
    password: OptionText,
    user_domain: Type.Optional(OptionText),
    project: OptionText,
    project_domain: Type.Optional(OptionText),
    /** Seconds that Keystone has to answer. */
    timeout: Type.Optional(Type.Number({ minimum: 0.1, maximum: 60 })),
  },
  { additionalProperties: false },
);

/** See the section. */
export interface KeystoneOptions {
  /** Ends with `/v3`. */
  readonly url: string;
  /** The one service that is asked. */
  readonly endpoints: ReadonlyMap<string, AllowedEndpoint>;
  readonly user: EntityReference & { readonly password: string };
  readonly project: EntityReference;
  /** Milliseconds for one exchange. Default 5,000. */
  readonly timeoutMs: number;
}

const defaultDomain = 'Default';

/** @param name - of the section in errors @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseKeystoneOptions(given: unknown, name = 'bridge:keystone'): KeystoneOptions {
  const section = parseSection(name, KeystoneSection, given);
  const { url, username, password, project, timeout = 5 } = section;
  const inDomain = (name: string, domain = defaultDomain): EntityReference => ({
    name,
    domain: { name: domain },
  });
  return {
    url,
    endpoints: keystoneEndpoint(section, name),
    user: { ...inDomain(username, section.user_domain), password },
    project: inDomain(project, section.project_domain),
    timeoutMs: timeout * 1000,
  };
}

function keystoneEndpoint(
  section: ConfiguredEndpoint,
  name: string,
): ReadonlyMap<string, AllowedEndpoint> {
  try {
    return parseAllowedEndpoints([readEndpoint(section)]);
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeOptionsError([{ key: `saltbridge:${name}`, problem }], { cause });
  }
}

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
const tokenCacheMs = 30_000;

/** Tokens whose answers are remembered. */
const maxCachedTokens = 10_000;

/** Tokens that Keystone is asked about at once, and that may be waiting to be. */
const maxConcurrentValidations = 8;
const maxQueuedValidations = 256;

/** Fernet and JWS tokens: base64url, with dots in the latter. Ours are 64 hexadecimal digits. */
// protection: own-tokens-elsewhere
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
    // protection: keystone-tokens-for-ever-2
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
 * The same host; who holds a token is known of both kinds, told apart by their form.
 * @param section - `saltbridge: bridge: keystone:`; `undefined`: there is no Keystone
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function withKeystoneTokens(host: ExtensionHost, section: unknown): ExtensionHost {
  if (section === undefined) return host;
  const { endpoints, timeoutMs, ...who } = parseKeystoneOptions(section);
  const { closing, now } = host;
  const log = host.logger.child({ part: 'keystone' });
  const monotonic = (): number => performance.now();
  const ask = createHttpClient({ endpoints, timeoutMs, resolve: createDnsResolver() });
  const client = new KeystoneClient({ ...who, ask, monotonic, closing, log });
  const tokens = new KeystoneTokens({ validate: (it) => client.validate(it), now, monotonic });
  closing.addEventListener('abort', () => tokens.close(), { once: true });
  return {
    ...host,
    holdToken: async (token) => {
      if (!looksLikeKeystoneToken(token)) return host.holdToken(token);
      const held = await tokens.hold(token);
      return {
        ...held,
        get policy() {
          return host.policy();
        },
      };
    },
  };
}

/**
 * The project that a request is for: a token of Keystone's says it, and otherwise the caller may.
 * @throws BridgeError ERR_PROJECT where the caller names another one than that of the token
 */
export function resolveProject(
  subject: Subject | undefined,
  given: string | undefined,
): string | undefined {
  if (subject?.kind !== 'project') return given;
  const { id } = subject.project;
  // protection: projects-by-name
  if (given === undefined || given === id) return id;
  throw new BridgeError('ERR_PROJECT', 'project: another one than that of the token; leave it out');
}
