/**
 * Log-ins: verifies credentials, limits failed and concurrent attempts, and checks whether users
 * are still valid [salt/auth/__init__.py].
 */

import type { Logger } from 'pino';
import type { LiveConfig } from '#config';
import type {
  AuditRequester,
  Login,
  LoginRequest,
  TokenInfo,
  TokenSelection,
} from '../api/index.ts';
import type { LoginAudit } from '../audit/index.ts';
import type { Authenticated, LoginBackend } from './backend.ts';
import { type Backends, createBackends } from './backends.ts';
import { AuthenticationError } from './errors.ts';
import { FailedLogins } from './failed-logins.ts';
import { areCredentials } from './login-form.ts';
import { type AddressCheck, createAddressCheck } from './login-places.ts';
import { type LoginSlot, LoginSlots } from './login-slots.ts';
import { TokenWatch, type Watched } from './token-watch.ts';
import type { KnownToken, TokenClocks, TokenTable } from './tokens.ts';
import { UserStatusChecks } from './user-status.ts';

/** Function that returns the permissions in `external_auth` that apply to a user. */
type RightsOf = (user: Authenticated & { readonly eauth: string }) => readonly unknown[];

/** Clocks that determine the expiry of tokens and the duration of log-ins. */
interface LoginClocks extends TokenClocks {
  /** Waits for this number of milliseconds. */
  readonly delay: (milliseconds: number) => Promise<void>;
}

export interface LoginsOptions {
  readonly config: LiveConfig;
  readonly tokens: TokenTable;
  readonly rightsOf: RightsOf;
  readonly clocks: LoginClocks;
  readonly audit: LoginAudit;
  readonly log: Logger;
  /** Backends that authenticate users. Default: the backends of the configuration. */
  readonly backends?: Backends;
}

/**
 * Time unit to which the duration of failed log-ins is rounded up, in milliseconds. The duration
 * therefore reveals little about the cause of the failure.
 */
const failureStepMs = 250;

/**
 * Maximum duration of a log-in that can lengthen the delay of failed log-ins, in milliseconds. A
 * failed log-in is delayed until it has taken as long as the longest log-in so far. Log-ins above
 * this maximum are not counted, because they indicate a problem of the backend.
 */
const longestMeasureMs = 2000;

/** Timeout of a log-in at a backend, in milliseconds. */
const loginTimeoutMs = 15_000;

/**
 * Maximum lifetime of tokens if the backend cannot check whether users are still valid, in
 * milliseconds.
 */
const longestWithoutStanding = 3_600_000;

/** Token that is used for some time, such as for a stream. */
export interface HeldToken extends Watched {
  readonly token: KnownToken;
  /**
   * Returns the groups that the user has now. They can change while the token is in use. The result
   * is empty if the token is no longer valid.
   */
  readonly groupsNow: () => readonly string[];
}

/** Performs the log-ins of a master, and manages the tokens of its users. */
export class Logins {
  readonly #options: LoginsOptions;
  readonly #failures: FailedLogins;
  readonly #standings: UserStatusChecks;
  readonly #watch: TokenWatch;
  readonly #isLet: AddressCheck;
  readonly #slots = new LoginSlots();
  /**
   * Minimum duration of a failed log-in, in units of {@link failureStepMs}. It is at least the
   * duration of the longest log-in so far. Log-ins that took more than {@link longestMeasureMs} are
   * ignored.
   */
  #failureSteps = 1;
  #backends: Backends;

  constructor(options: LoginsOptions) {
    this.#options = options;
    this.#failures = new FailedLogins(options.clocks.monotonic);
    this.#standings = new UserStatusChecks(options.clocks.monotonic);
    const { api, restCherrypy } = options.config.fixed;
    this.#isLet = createAddressCheck((api ?? restCherrypy)?.apiAcl);
    this.#backends = options.backends ?? createBackends(options.config.current, options.clocks.now);
    this.#watch = new TokenWatch(async (hash) => (await this.#validate(hash)) !== undefined);
  }

  /**
   * Replaces the backends after a change of the configuration.
   * @param backends - new backends. Default: backends that are created from the current
   * configuration
   */
  configure(backends?: Backends): void {
    const { config, clocks } = this.#options;
    this.#backends = backends ?? createBackends(config.current, clocks.now, this.#backends);
    this.#standings.clear();
  }

  /**
   * Returns the backends that do not work on this machine for some or all users, each with the
   * reason.
   */
  async obstacles(): Promise<readonly (readonly [eauth: string, reason: string])[]> {
    const found = [...this.#backends].map(async ([name, backend]) => {
      const reason = await backend.obstacle?.();
      return reason === undefined ? [] : [[name, reason] as const];
    });
    return (await Promise.all(found)).flat();
  }

  /**
   * Verifies credentials and creates a token. A call that fails with ERR_EAUTH takes a multiple of
   * 250 ms. It takes at least as long as the longest log-in so far, not counting log-ins of more
   * than 2 s. Its duration therefore reveals little about the cause.
   * @throws AuthenticationError ERR_EAUTH for any invalid credentials; ERR_EAUTH_LIMIT,
   * ERR_EAUTH_UNAVAILABLE
   */
  async login(request: LoginRequest): Promise<Login> {
    const { source = 'local', eauth } = request;
    const slot = this.#slots.enter(source);
    const startedAt = this.#options.clocks.monotonic();
    try {
      const found = await this.#authenticate(request, source, slot);
      const took = this.#options.clocks.monotonic() - startedAt;
      const steps = Math.floor(took / failureStepMs) + 1;
      if (took <= longestMeasureMs) this.#failureSteps = Math.max(steps, this.#failureSteps);
      if (found !== undefined) {
        this.#slots.succeeded(found.backend.name, found.identity.user, source);
        return await this.#createToken(found, request);
      }
      const least = Math.max(steps, this.#failureSteps);
      await this.#options.clocks.delay(least * failureStepMs - took);
    } finally {
      slot.leave();
    }
    const known = this.#backends.has(eauth) ? { eauth } : {};
    this.#options.log.info({ ...known, remote: source }, 'log-in failed');
    this.#options.audit.failed(known.eauth, source);
    throw new AuthenticationError('ERR_EAUTH', 'Authentication failure occurred');
  }

  /**
   * Looks up a token by its secret, and checks that the user may still log in.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  async identify(secret: string): Promise<KnownToken> {
    const found = this.#options.tokens.find(secret);
    const token = found && (await this.#validate(found.hash));
    if (token === undefined) {
      await this.#options.tokens.dropExpired(secret);
      throw new AuthenticationError(
        'ERR_EAUTH_TOKEN',
        'the token is invalid or has expired; log in again',
      );
    }
    return token;
  }

  /**
   * Looks up a token for a use that lasts for some time, such as a stream. The result reports when
   * the token becomes invalid. The caller must call `stop` when the use ends.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  async hold(secret: string): Promise<HeldToken> {
    const token = await this.identify(secret);
    const watched = this.#watch.watch(token.hash);
    const groupsNow = (): readonly string[] => this.#options.tokens.get(token.hash)?.groups ?? [];
    return { token, groupsNow, ...watched };
  }

  /**
   * Revokes a token.
   * @returns whether the token was valid
   */
  async logout(secret: string): Promise<boolean> {
    const token = this.#options.tokens.find(secret);
    if (token === undefined) return false;
    await this.#end([token]);
    return true;
  }

  /** Returns descriptions of all valid tokens. */
  list(): TokenInfo[] {
    return this.#options.tokens.list().map(toInfo);
  }

  /**
   * Revokes the tokens that match all given properties.
   * @param by - requester for the audit log. Default: the local interface
   * @returns descriptions of the revoked tokens
   */
  async revoke(
    { id, user, eauth }: TokenSelection,
    by?: AuditRequester,
  ): Promise<readonly TokenInfo[]> {
    const chosen = this.#options.tokens
      .list()
      .filter(
        (it) =>
          (id === undefined || idOf(it) === id) &&
          (user === undefined || it.user === user) &&
          (eauth === undefined || it.eauth === eauth),
      );
    const revoked = chosen.map(toInfo);
    this.#options.audit.revoked(revoked, by);
    await this.#end(chosen);
    return revoked;
  }

  /** Deletes expired tokens from the store, and ends the streams that use them. */
  async sweep(): Promise<void> {
    this.#watch.end(await this.#options.tokens.sweep());
  }

  close(): void {
    this.#watch.close();
  }

  /**
   * Returns the token if it is valid and its user may still log in. If the user may no longer log
   * in, revokes the token and returns `undefined`.
   */
  async #validate(hash: string): Promise<KnownToken | undefined> {
    const { tokens } = this.#options;
    const token = tokens.get(hash);
    if (token === undefined) return undefined;
    // If a backend was removed from `external_auth`, its tokens are invalid, as in Salt.
    const backend = this.#backends.get(token.eauth);
    if (backend === undefined) return undefined;
    const standing = await this.#standings.of(backend, token);
    if (standing.state === 'gone') {
      await this.#end([token]);
      return undefined;
    }
    if (!isSame(standing.groups, token.groups)) await tokens.setGroups(hash, standing.groups);
    // The token may have been revoked while the user was checked.
    return tokens.get(hash);
  }

  async #end(tokens: readonly KnownToken[]): Promise<void> {
    const hashes = tokens.map(({ hash }) => hash);
    const done = this.#options.tokens.revoke(hashes);
    this.#watch.end(hashes);
    await done;
    this.#options.audit.ended(tokens.map(toInfo));
  }

  async #authenticate(
    request: LoginRequest,
    source: string,
    slot: LoginSlot,
  ): Promise<{ readonly backend: LoginBackend; readonly identity: Authenticated } | undefined> {
    const { username, password, eauth } = request;
    const backend = this.#backends.get(eauth);
    if (backend === undefined || !areCredentials({ username, password }, eauth)) return undefined;
    const succeed = this.#failures.begin(foldName(username), source);
    if (succeed === undefined)
      throw limit('too many failed log-ins of this user from this address; wait a minute');
    if (!this.#mayComeFrom(request.source, username)) return undefined;
    try {
      const identity = await slot.ask(eauth, () =>
        backend.authenticate({ username, password }, AbortSignal.timeout(loginTimeoutMs)),
      );
      // The backend may return another spelling of the user name, so the address is checked again.
      if (identity === undefined || !this.#mayComeFrom(request.source, identity.user)) {
        return undefined;
      }
      succeed();
      return { backend, identity };
    } catch (error) {
      // The attempt is not counted as a failure, because the credentials may be valid.
      succeed();
      throw error;
    }
  }

  /**
   * Whether `api_acl` permits a user to log in from an address.
   * @param source - address of the client. `undefined` for log-ins on this host without HTTP, which
   * are always permitted
   */
  #mayComeFrom(source: string | undefined, user: string): boolean {
    return source === undefined || this.#isLet(user, source);
  }

  async #createToken(
    { backend, identity }: { readonly backend: LoginBackend; readonly identity: Authenticated },
    request: LoginRequest,
  ): Promise<Login> {
    const { tokens, config, clocks, log, audit, rightsOf } = this.#options;
    const eauth = backend.name;
    const start = clocks.now();
    const expire = Math.min(
      start + this.#lifeSeconds(eauth, identity.user, request) * 1000,
      backend.standingOf === undefined ? start + longestWithoutStanding : Infinity,
      identity.until ?? Infinity,
    );
    const user = { ...identity, eauth };
    const perms = rightsOf(user);
    const record = {
      user: identity.user,
      eauth,
      groups: [...identity.groups],
      start,
      expire,
      ...(config.current.eauth.keepAclInToken ? { rights: [...perms] } : {}),
    };
    const { secret, hash } = await tokens.create(record);
    this.#standings.note(backend, identity);
    const info = toInfo({ ...record, hash });
    const { source: remote = 'local' } = request;
    log.info({ user: identity.user, eauth, remote, tokenId: info.id }, 'logged in');
    audit.loggedIn(info, remote);
    return { ...info, token: secret, perms };
  }

  /**
   * Returns the lifetime of a new token, in seconds [salt/auth/__init__.py _allow_custom_expire].
   */
  #lifeSeconds(eauth: string, user: string, { tokenExpireSeconds: asked }: LoginRequest): number {
    const { tokenExpire: usual, tokenExpireUserOverride: override } =
      this.#options.config.current.eauth;
    const mayChoose =
      typeof override === 'boolean'
        ? override
        : Object.hasOwn(override, eauth) && override[eauth]?.includes(user) === true;
    const isLife = asked !== undefined && asked >= 1 && asked <= 1e9;
    return mayChoose && isLife ? asked : usual;
  }
}

/**
 * Normalises a user name for counting failed log-ins. Some backends ignore case or character width.
 * Therefore all spellings that a backend may accept for a user must have the same normalised name.
 */
function foldName(username: string): string {
  return username.normalize('NFKC').toUpperCase().toLowerCase().replace(/\s+/g, ' ').trim();
}

/** Returns the description of a token for operators. It contains an id instead of the secret. */
export function toInfo(token: KnownToken): TokenInfo {
  const { user, eauth, groups, start, expire } = token;
  return { id: idOf(token), user, eauth, groups, start, expire };
}

/** Returns the id of a token: the beginning of its digest. It does not reveal the token. */
function idOf({ hash }: Pick<KnownToken, 'hash'>): string {
  return hash.slice(0, 16);
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((group) => b.includes(group));
}

function limit(text: string): AuthenticationError {
  return new AuthenticationError('ERR_EAUTH_LIMIT', text);
}
