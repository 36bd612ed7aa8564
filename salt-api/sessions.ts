/**
 * Sessions of the HTTP API. Each has a random token, of which only the digest is stored [THREATS
 *
 */

import { createHash, randomBytes } from 'node:crypto';
import { createBoundedMap } from '#runtime';
import { apiLimits } from './limits.ts';

/** A user's session. */
export interface Session {
  /** Salt's token of the session, for the master. */
  readonly token: string;
}

/** Open sessions. */
export interface Sessions {
  /**
   * Opens a session.
   * @param token Salt's token
   * @returns the token of the session, which cannot be read again
   * @throws StoreError if it should be stored and cannot be
   */
  open(token: string): Promise<string>;
  /** Returns the session of a token. Accepts any text. */
  find(secret: string): Session | undefined;
  /**
   * Returns the session of a token. If it may have been opened elsewhere just now, waits for it
   * briefly.
   */
  expect(secret: string): Promise<Session | undefined>;
  /**
   * Ends a session permanently.
   * @throws StoreError if other members may still accept it
   */
  close(secret: string): Promise<void>;
  /** Number of sessions, including those that expired and were not looked up since. */
  readonly size: number;
  /** Stops the sessions. No further call follows. */
  stop(): Promise<void>;
}

/** Maximum number of sessions. The least recently used one is evicted first. */
export const maxSessions = 50_000;

/** Returns a new session token. */
export function createSessionToken(): string {
  return randomBytes(32).toString('hex');
}

const tokenForm = /^[0-9a-f]{64}$/;

/** Whether a text has the form of a session token. */
export function hasTokenForm(text: string): boolean {
  return tokenForm.test(text);
}

/** Returns the digest under which a session is stored. */
export function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

/** Returns the session of a token by its digest. Accepts any text. */
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
  /** Idle time after which a session expires, in milliseconds. */
  readonly idleMs: number;
  /** Returns milliseconds of a monotonic clock. */
  readonly now: () => number;
}

/** Sessions of one server. They end with it, and users must log in again. */
export class MemorySessions implements Sessions {
  readonly #options: MemorySessionsOptions;
  readonly #held = createBoundedMap<string, StoredSession>(apiLimits.sessions);

  constructor(options: MemorySessionsOptions) {
    this.#options = options;
  }

  async open(token: string): Promise<string> {
    const secret = createSessionToken();
    const usedAt = this.#options.now();
    this.#held.set(digestOf(secret), { session: { token }, usedAt });
    return secret;
  }

  find(secret: string): Session | undefined {
    const known = lookUp(this.#held, secret);
    if (known === undefined) return undefined;
    const [hash, held] = known;
    this.#held.delete(hash);
    const now = this.#options.now();
    if (now - held.usedAt >= this.#options.idleMs) return undefined;
    this.#held.set(hash, { ...held, usedAt: now });
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
