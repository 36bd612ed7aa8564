/**
 * Sessions of the HTTP API. A session has a random token, and only the digest of this token is
 * stored [THREATS A-03].
 */

import { hash, randomBytes } from 'node:crypto';
import { FairTable } from '#runtime';
import { apiLimits } from './limits.ts';

/** A user's session. */
export interface Session {
  /**
   * Token of the user at the master. The API uses it for calls of the master and never sends it to
   * the client.
   */
  readonly token: string;
}

/** User of a session. */
export interface SessionOwner {
  readonly user: string;
  readonly eauth: string;
}

/**
 * Returns the name under which limits count the sessions of a user. Users of different eauth back
 * ends always have different names.
 */
export function ownerNameOf({ eauth, user }: SessionOwner): string {
  return `${eauth} ${user}`;
}

/** Open sessions. */
export interface Sessions {
  /**
   * Opens a session. If the maximum number of sessions is reached, first evicts another session. A
   * user's only session is not evicted for the session of another user.
   * @param token - token of the user at the master
   * @param owner - user of the token
   * @returns the token of the session; it cannot be read again
   * @throws StoreError if the session cannot be stored; LimitExceeded if the maximum is reached and
   * no session may be evicted
   */
  open(token: string, owner: SessionOwner): Promise<string>;
  /**
   * Returns the session with this session token, or `undefined` if there is none.
   * @param secret - session token as the client sent it. It may have any form
   */
  find(secret: string): Session | undefined;
  /**
   * Returns the session with this session token, or `undefined` if there is none. If the session is
   * unknown, waits briefly, because another member of the cluster may have just opened it.
   * @param address - address of the client
   */
  expect(secret: string, address: string): Promise<Session | undefined>;
  /**
   * Ends a session permanently.
   * @throws StoreError if the write fails, because other members may still accept the session
   */
  close(secret: string): Promise<void>;
  /**
   * Number of sessions. It includes expired sessions that were not looked up after their expiry.
   */
  readonly size: number;
  /** Stops the service. No other method may be called afterwards. */
  stop(): Promise<void>;
}

/** Returns a new session token. */
export function createSessionToken(): string {
  return randomBytes(32).toString('hex');
}

const tokenForm = /^[0-9a-f]{64}$/;

/** Whether a text has the form of a session token. The session may not exist. */
export function hasTokenForm(text: string): boolean {
  return tokenForm.test(text);
}

/** Returns the digest of a session's token. The session is stored under this digest. */
export function digestOf(secret: string): string {
  return hash('sha256', secret);
}

/**
 * Looks a session up by the digest of its token. Returns the digest and the session, or `undefined`
 * if there is none.
 * @param secret - session token; may be any text
 */
export function lookUp<Held>(
  sessions: { get(hash: string): Held | undefined },
  secret: string,
): readonly [hash: string, held: Held] | undefined {
  if (!hasTokenForm(secret)) return undefined;
  const hash = digestOf(secret);
  const held = sessions.get(hash);
  return held === undefined ? undefined : [hash, held];
}

interface StoredSession {
  readonly session: Session;
  usedAt: number;
}

export interface MemorySessionsOptions {
  /** Time without use after which a session expires, in milliseconds. */
  readonly idleMs: number;
  /** Returns milliseconds of a monotonic clock. */
  readonly now: () => number;
}

/**
 * Sessions of one server, in memory. When the server closes, they end and users must log in again.
 */
export class MemorySessions implements Sessions {
  readonly #options: MemorySessionsOptions;
  readonly #held = new FairTable<StoredSession>(apiLimits.sessions);

  constructor(options: MemorySessionsOptions) {
    this.#options = options;
  }

  async open(token: string, owner: SessionOwner): Promise<string> {
    const secret = createSessionToken();
    const usedAt = this.#options.now();
    this.#held.set(ownerNameOf(owner), digestOf(secret), { session: { token }, usedAt });
    return secret;
  }

  find(secret: string): Session | undefined {
    const known = lookUp(this.#held, secret);
    if (known === undefined) return undefined;
    const [hash, held] = known;
    const now = this.#options.now();
    if (now - held.usedAt >= this.#options.idleMs) {
      this.#held.delete(hash);
      return undefined;
    }
    held.usedAt = now;
    return held.session;
  }

  async expect(secret: string): Promise<Session | undefined> {
    return this.find(secret);
  }

  get size(): number {
    return this.#held.size;
  }

  async close(secret: string): Promise<void> {
    this.#held.delete(digestOf(secret));
  }

  async stop(): Promise<void> {}
}
